#include "controller/offline/simulation/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace espalier::offline {
namespace {

Result<void> Check(const Job& job) {
  const auto fail = [&job](std::string_view what) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("job {}: {}", job.id, what));
  };
  if (job.phases.empty()) return fail("has no phases");
  if (job.epochs < 1) return fail("has no epochs");
  if (job.start_ns < 0) return fail("its times must not be negative");
  for (const Phase& phase : job.phases) {
    if (phase.compute_ns < 0) return fail("its times must not be negative");
    if (phase.exchanges.empty()) return fail("a phase has no exchanges");
    for (const Exchange& exchange : phase.exchanges) {
      if (exchange.flows.empty()) return fail("an exchange has no flows");
      if (exchange.round_bytes < 1) return fail("an exchange sends no bytes");
      if (exchange.rounds < 1) return fail("an exchange has no rounds");
    }
  }
  return {};
}

}  // namespace

Result<Workload> Workload::Build(const fabric::Topology& topology, std::vector<Job> jobs) {
  if (jobs.empty())
    return Fail(ErrorCode::kInvalidArgument,
                "no jobs to simulate (name a file or folder with jobs)");
  const fabric::PathTable paths(topology);
  Workload workload;
  workload.topology_ = &topology;
  workload.jobs_ = std::move(jobs);
  for (std::uint32_t j = 0; j < workload.jobs_.size(); ++j) {
    if (auto checked = Check(workload.jobs_[j]); !checked) return Propagate(checked);
    if (auto added = workload.AddJob(paths, j); !added) return Propagate(added);
  }
  return workload;
}

Result<void> Workload::AddJob(const fabric::PathTable& paths, std::uint32_t j) {
  const Job& job = jobs_[j];
  using Pair = std::pair<fabric::NodeId, fabric::NodeId>;
  std::map<std::pair<Pair, std::uint32_t>, std::uint32_t> connections;
  std::vector<std::uint32_t>& first = first_exchange_.emplace_back();
  const auto first_of_job = static_cast<std::uint32_t>(exchanges_.size());
  for (std::uint32_t p = 0; p < job.phases.size(); ++p) {
    first.push_back(static_cast<std::uint32_t>(exchanges_.size()));
    // Within a phase every flow is a connection of its own.
    std::map<Pair, std::uint32_t> uses;
    for (const Exchange& exchange : job.phases[p].exchanges) {
      const auto number = static_cast<std::uint32_t>(exchanges_.size()) - first_of_job;
      SimulatedExchange made{j, p, exchange.round_bytes, exchange.rounds, {}};
      for (const Exchange::Flow& flow : exchange.flows) {
        if (auto checked = CheckNics(paths, job, flow); !checked) return checked;
        const Pair pair(flow.source, flow.destination);
        const auto [connection, is_new] = connections.try_emplace(
            {pair, uses[pair]++}, static_cast<std::uint32_t>(flows_.size()));
        made.flows.push_back(connection->second);
        if (!is_new) continue;
        flows_.push_back({j, number, flow.source, flow.destination,
                          *paths.FindAttachment(flow.source),
                          *paths.FindAttachment(flow.destination)});
      }
      exchanges_.push_back(std::move(made));
    }
  }
  return {};
}

void SimulatedFlow::AppendLinks(std::span<const std::uint32_t> hops,
                                std::vector<std::uint32_t>& links) const {
  const auto append = [&](std::optional<fabric::DirectedLink> link) {
    if (link) links.push_back(static_cast<std::uint32_t>(link->Index()));
  };
  append(source_attachment.uplink);
  links.insert(links.end(), hops.begin(), hops.end());
  append(destination_attachment.Downlink());
}

Result<void> Workload::CheckNics(const fabric::PathTable& paths, const Job& job,
                                 const Exchange::Flow& flow) const {
  for (const fabric::NodeId nic : {flow.source, flow.destination}) {
    if (paths.FindAttachment(nic)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("job {}: {}", job.id, fabric::WhyUnattached(*topology_, nic)));
  }
  return {};
}

std::vector<std::vector<std::uint32_t>> Workload::PhasesOf(std::uint32_t job) const {
  std::vector<std::vector<std::uint32_t>> phases(jobs_[job].phases.size());
  for (std::uint32_t p = 0; p < phases.size(); ++p) {
    std::vector<std::uint32_t>& flows = phases[p];
    const std::uint32_t first = FirstExchange(job, p);
    for (std::size_t e = first; e < first + jobs_[job].phases[p].exchanges.size(); ++e) {
      flows.insert(flows.end(), exchanges_[e].flows.begin(), exchanges_[e].flows.end());
    }
    std::ranges::sort(flows);
  }
  return phases;
}

}  // namespace espalier::offline
