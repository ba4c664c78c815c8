#include "controller/offline/evaluation/connection_schemes.h"

#include <algorithm>
#include <utility>

#include "controller/routing/phases/phase_assignment.h"

namespace espalier::offline {
namespace {

using controller::Assignment;
using controller::Commodity;
using controller::FabricView;
using controller::kLoadUnit;
using controller::kNoPath;
using controller::PhasedJob;
using controller::PhaseFlow;
using controller::SubflowId;

constexpr std::uint32_t kAbsent = 0xFFFF'FFFF;

// Every subflow as a flow of its own, and the phases of their jobs.
struct PhaseInput {
  std::vector<PhaseFlow> flows;
  std::vector<PhasedJob> jobs;
};

PhaseInput DescribePhases(const Workload& workload, std::span<const Commodity> commodities,
                          std::span<const std::uint32_t> flows, const Assignment& present) {
  PhaseInput input;
  std::vector<std::uint32_t> place(workload.flows().size(), kAbsent);
  for (std::uint32_t i = 0; i < flows.size(); ++i) {
    place[flows[i]] = i;
    const Commodity& commodity = commodities[i];
    for (const std::int32_t path : present.PathsOf(i)) {
      input.flows.push_back({.source = commodity.source,
                             .destination = commodity.destination,
                             .share = kLoadUnit / commodity.subflows,
                             .path = path,
                             .group = i});
    }
  }
  for (std::uint32_t j = 0; j < workload.jobs().size(); ++j) {
    PhasedJob job;
    for (const std::vector<std::uint32_t>& phase : workload.PhasesOf(j)) {
      std::vector<std::uint32_t> members;
      for (const std::uint32_t flow : phase) {
        if (place[flow] == kAbsent) continue;
        for (std::uint32_t s = present.first[place[flow]]; s < present.first[place[flow] + 1]; ++s)
          members.push_back(s);
      }
      if (!members.empty()) job.phases.push_back(std::move(members));
    }
    if (!job.phases.empty()) input.jobs.push_back(std::move(job));
  }
  return input;
}

// The sum over jobs of the greatest load that one of their phases puts on each link.
std::vector<std::int64_t> WorstLoads(const FabricView& view, const PhaseInput& input) {
  const std::size_t links = view.capacities().size();
  std::vector<std::int64_t> worst(links);
  std::vector<std::int64_t> of_phase(links);
  std::vector<std::int64_t> of_job(links);
  std::vector<std::uint32_t> hops;
  for (const PhasedJob& job : input.jobs) {
    std::ranges::fill(of_job, 0);
    for (const std::vector<std::uint32_t>& phase : job.phases) {
      std::ranges::fill(of_phase, 0);
      for (const std::uint32_t f : phase) {
        const PhaseFlow& flow = input.flows[f];
        if (flow.path == kNoPath) continue;
        hops.clear();
        view.AppendHops(flow.source, flow.destination, flow.path, hops);
        for (const std::uint32_t link : hops) of_phase[link] += flow.share;
      }
      for (std::size_t i = 0; i < links; ++i) of_job[i] = std::max(of_job[i], of_phase[i]);
    }
    for (std::size_t i = 0; i < links; ++i) worst[i] += of_job[i];
  }
  return worst;
}

}  // namespace

Assignment ConnectionAssigner::Assign(std::span<const Commodity> commodities,
                                      std::span<const std::uint32_t> flows) {
  CloseAllBut(flows);
  std::vector<SubflowId> arrivals;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const Commodity& commodity = commodities[i];
    const auto [entry, is_new] = open_.try_emplace(flows[i]);
    if (!is_new || commodity.source == commodity.destination) continue;
    for (std::uint32_t s = 0; s < commodity.subflows; ++s) {
      entry->second.push_back(
          online_.Add(commodity.source, commodity.destination, kLoadUnit / commodity.subflows));
      arrivals.push_back(entry->second.back());
    }
  }
  const controller::OnlineAssigner::Options options{
      .max_moves = std::numeric_limits<std::size_t>::max(),
      .max_in_progress_moves = kMovesPerArrival};
  online_.PlaceArrivals(arrivals, options);
  for (const SubflowId subflow : arrivals) online_.SetInProgress(subflow);

  Assignment assignment;
  assignment.Clear(commodities);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const std::vector<SubflowId>& subflows = open_[flows[i]];
    for (std::size_t s = 0; s < subflows.size(); ++s) {
      assignment.paths[assignment.first[i] + s] = online_.PathOf(subflows[s]);
    }
  }
  return assignment;
}

void ConnectionAssigner::CloseAllBut(std::span<const std::uint32_t> flows) {
  std::erase_if(open_, [&](const auto& entry) {
    if (std::ranges::binary_search(flows, entry.first)) return false;
    for (const SubflowId subflow : entry.second) online_.Remove(subflow);
    return true;
  });
}

Assignment PhaseAssigner::Assign(std::span<const Commodity> commodities,
                                 std::span<const std::uint32_t> flows) {
  Assignment assignment;
  assignment.Clear(commodities);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto known = paths_.find(flows[i]);
    if (known != paths_.end()) {
      std::ranges::copy(known->second, assignment.paths.begin() + assignment.first[i]);
    }
  }
  const PhaseInput input = DescribePhases(workload_, commodities, flows, assignment);
  auto assigned = controller::AssignPhases(view_, {}, input.flows, input.jobs);
  assignment.paths = std::move(assigned.paths);
  assignment.max_load = assigned.max_load;
  assignment.lower_bound = assigned.lower_bound;
  paths_.clear();
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto paths = assignment.PathsOf(i);
    paths_[flows[i]].assign(paths.begin(), paths.end());
  }
  return assignment;
}

WorstOverlap ComputeWorstOverlap(const FabricView& view, const Workload& workload,
                                 std::span<const Commodity> commodities,
                                 std::span<const std::uint32_t> flows,
                                 const Assignment& assignment) {
  const PhaseInput input = DescribePhases(workload, commodities, flows, assignment);
  return {
      .load = controller::ComputeMaxLoad(view, WorstLoads(view, input)),
      .lower_bound = controller::AssignPhases(view, {}, input.flows, input.jobs, {.step_budget = 0})
                         .lower_bound};
}

}  // namespace espalier::offline
