#include "deploy/demo/phases_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "deploy/lab/workload/phase_loads.h"
#include "deploy/lab/workload/phased_jobs.h"

namespace espalier::demo {
namespace {

// Above the size of an elephant, so that agents report a flow from its first burst on.
constexpr std::int64_t kBurstBytes = 1'100'000;
constexpr std::int64_t kSegmentBytes = 110'000;  // a new port takes effect at the next segment
constexpr double kComputeSeconds = 0.06;
// Bytes on the wire for each byte of a full TCP segment.
constexpr double kWireBytes = 1514.0 / 1448.0;

double IdealBurstSeconds(const lab::LabLayout& layout) {
  const double queued = static_cast<double>(kBurstBytes) * kWireBytes -
                        static_cast<double>(lab::LabLayout::kShaperBurstBytes);
  return queued * 8 / static_cast<double>(layout.options().link_rate->value);
}

}  // namespace

std::string NameOf(Scheme scheme) {
  switch (scheme) {
    case Scheme::kEcmp:
      return "ecmp";
    case Scheme::kConnections:
      return "connections";
    case Scheme::kEspalier:
      break;
  }
  return "espalier";
}

PhasesShape PhasesShape::For(Scheme scheme) const {
  PhasesShape shape = *this;
  if (scheme == Scheme::kEcmp) shape.iterations = std::max(2, iterations / 3);
  if (scheme == Scheme::kConnections) shape.iterations = std::max(2, iterations / 2);
  return shape;
}

std::string ControllerFields(Scheme scheme) {
  return scheme == Scheme::kConnections ? "activity: \"connections\"\n" : "";
}

Result<Experiment> MakePhases(const lab::LabLayout& layout, const PhasesShape& shape) {
  const lab::LabOptions& fabric = layout.options();
  auto jobs = traffic::MakePhasedJobs({.leaves = fabric.leaves,
                                       .hosts_per_leaf = fabric.hosts_per_leaf,
                                       .jobs = shape.jobs,
                                       .iterations = shape.iterations,
                                       .burst_bytes = kBurstBytes,
                                       .compute_seconds = kComputeSeconds,
                                       .jitter_percent = shape.jitter_percent,
                                       .queue_pairs = shape.queue_pairs});
  if (!jobs) return Propagate(jobs);
  const traffic::PhaseLoads loads = traffic::BoundPhaseLoads(
      *jobs, fabric.spines,
      [&](const std::string& host) { return std::atoi(host.c_str() + 1) / fabric.hosts_per_leaf; });
  if (loads.worst_overlap != 1 || loads.all_connections < 2 || !loads.are_phases_disjoint ||
      !fabric.link_rate) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("phases of {} jobs put {} flows on a link, all connections {} (use a "
                            "4x4x4 fabric with a link rate, and 2 or 4 jobs)",
                            shape.jobs, loads.worst_overlap, loads.all_connections));
  }
  const double burst = IdealBurstSeconds(layout);
  Experiment experiment{
      .name = "phases", .flow_bytes = kBurstBytes, .ideal = {"phases", burst, {}}};
  for (const traffic::PhasedJob& job : *jobs) {
    experiment.ideal.allreduce_seconds[job.id] = burst * static_cast<double>(job.phases.size());
  }
  experiment.workload.segment_bytes = kSegmentBytes;
  experiment.workload.phased_jobs = std::move(*jobs);
  return experiment;
}

}  // namespace espalier::demo
