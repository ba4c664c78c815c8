#include "deploy/demo/measured_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "deploy/demo/phase_figures.h"
#include "deploy/demo/spine_check.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/run_traffic.h"

namespace espalier::demo {
namespace {

constexpr std::chrono::seconds kRunLimit{180};

}  // namespace

Result<MeasuredRun> RunMeasured(const lab::Lab& lab, const Experiment& experiment,
                                std::uint64_t seed, const LabDaemons* daemons) {
  auto before = lab::ReadFlowCounts(lab);
  if (!before) return Propagate(before);
  lab::TrafficOptions options;
  options.seed = seed;
  options.use_agents = daemons != nullptr;
  options.time_limit = kRunLimit;
  auto result = lab::RunTraffic(lab, experiment.workload, options);
  if (!result) return Propagate(result);
  auto after = lab::ReadFlowCounts(lab);
  if (!after) return Propagate(after);
  const auto counts = lab::Difference(*before, *after);

  MeasuredRun measured;
  measured.completed = result->completed;
  RunFigures& figures = measured.figures;
  figures.name = experiment.name;
  figures.scheme = daemons != nullptr ? "espalier" : "ecmp";
  figures.slowest_flow_seconds = result->SlowestFlowSeconds();
  figures.median_flow_seconds = result->MedianFlowSeconds();
  figures.throughput_mbps = result->ThroughputBps() / 1e6;
  for (const lab::JobOutcome& job : result->jobs) {
    figures.allreduce_seconds[job.id] = job.allreduce_seconds;
  }
  if (!experiment.workload.phased_jobs.empty()) {
    SetPhaseFigures(lab, *result, counts, figures);
  } else {
    // Counts a flow on the path of most of its bytes, not on the one before it got its port.
    const auto loads =
        lab::CountFlowsPerDirection(lab.topology(), counts, experiment.flow_bytes / 2);
    for (const auto& [direction, flows] : loads) {
      figures.max_link_flows = std::max(figures.max_link_flows, static_cast<double>(flows));
      int& of_tier = direction.starts_with("leaf") ? measured.max_leaf_link_flows
                                                   : measured.max_core_link_flows;
      of_tier = std::max(of_tier, flows);
    }
  }
  if (daemons != nullptr) {
    const auto check = CheckSpines(lab, *result, counts, *daemons);
    if (!check) return tl::unexpected<Error>(check.error());
    measured.steered_flows = check->steered_flows;
    measured.mismatches = check->mismatches;
    measured.core_mismatches = check->core_mismatches;
  }
  return measured;
}

}  // namespace espalier::demo
