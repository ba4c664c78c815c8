#include <fmt/format.h>

#include <utility>

#include "controller/offline/simulation/simulator.h"

namespace espalier::offline {
namespace {

Result<void> Check(const Job& job) {
  const auto fail = [&job](std::string_view what) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("job {}: {}", job.id, what));
  };
  if (job.rings.empty()) return fail("has no rings");
  if (job.epochs < 1) return fail("has no epochs");
  if (job.start_ns < 0 || job.compute_ns < 0) return fail("its times must not be negative");
  for (const Ring& ring : job.rings) {
    if (ring.flows.size() < 2) return fail("a ring has fewer than two flows");
    if (ring.round_bytes < 1) return fail("a ring sends no bytes");
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
  for (std::uint32_t j = 0; j < jobs.size(); ++j) {
    if (auto checked = Check(jobs[j]); !checked) return Propagate(checked);
    std::vector<std::uint32_t>& first_flow = workload.first_flow_.emplace_back();
    for (std::uint32_t r = 0; r < jobs[j].rings.size(); ++r) {
      const Ring& ring = jobs[j].rings[r];
      first_flow.push_back(static_cast<std::uint32_t>(workload.flows_.size()));
      for (const auto& [source, destination] : ring.flows) {
        for (const fabric::NodeId nic : {source, destination}) {
          if (paths.FindAttachment(nic)) continue;
          return Fail(ErrorCode::kInvalidArgument,
                      fmt::format("job {}: {} is not attached to exactly one switch", jobs[j].id,
                                  topology.node(nic).id));
        }
        workload.flows_.push_back({j, r, source, destination, *paths.FindAttachment(source),
                                   *paths.FindAttachment(destination), ring.round_bytes});
      }
    }
  }
  workload.jobs_ = std::move(jobs);
  return workload;
}

}  // namespace espalier::offline
