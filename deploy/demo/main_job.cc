#include "deploy/demo/main_job.h"

#include <fmt/format.h>

#include <utility>

#include "deploy/lab/workload/parallel_job.h"

namespace espalier::demo {
namespace {

constexpr std::int64_t kPermutationBytes = 8'000'000;
constexpr std::int64_t kRingBytes = 6'000'000;   // of gradients per GPU
constexpr std::int64_t kSegmentBytes = 250'000;  // a new port takes effect at the next segment
constexpr double kComputeSeconds = 0.2;

double LinkSeconds(const lab::LabLayout& layout, std::int64_t bytes) {
  return static_cast<double>(bytes) * 8 / static_cast<double>(layout.options().link_rate->value);
}

std::vector<std::string> NicNames(const lab::LabLayout& layout) {
  std::vector<std::string> nics;
  for (int i = 0; i < layout.NicCount(); ++i) nics.push_back(layout.NicName(i));
  return nics;
}

// Sets what the flows of an experiment carry, and the times that they take alone on their links, if
// all its rings are alike.
void SetIdeal(const lab::LabLayout& layout, Experiment& experiment) {
  const traffic::Job& first = experiment.workload.jobs.front();
  const traffic::Ring& ring = first.rings.front();
  const std::int64_t ring_flow_bytes =
      traffic::RingRounds(ring.hosts.size()) * traffic::ChunkBytes(ring);
  experiment.flow_bytes = ring_flow_bytes * first.epochs;
  const double allreduce = LinkSeconds(layout, ring_flow_bytes);
  // A flow begins with its first all-reduce, after the first pause.
  experiment.ideal = {
      experiment.name, first.epochs * allreduce + (first.epochs - 1) * kComputeSeconds, {}};
  for (const traffic::Job& job : experiment.workload.jobs) {
    experiment.ideal.allreduce_seconds[job.id] = allreduce;
  }
}

}  // namespace

Result<Experiment> MakePermutation(const lab::LabLayout& layout) {
  const lab::LabOptions& shape = layout.options();
  // To the next leaf of the same rail, or to the next pod.
  const int shift = shape.hosts_per_leaf * (shape.pods == 0 ? shape.rails : shape.leaves);
  auto workload = traffic::MakeShiftedPermutation(NicNames(layout), shift, kPermutationBytes);
  if (!workload) return Propagate(workload);
  workload->segment_bytes = kSegmentBytes;
  for (traffic::SingleFlow& flow : workload->flows) flow.job = "permutation";
  const double seconds = LinkSeconds(layout, kPermutationBytes);
  return Experiment{.name = "permutation",
                    .workload = std::move(*workload),
                    .flow_bytes = kPermutationBytes,
                    .ideal = {"permutation", seconds, {}}};
}

Result<Experiment> MakeRingJobs(const lab::LabLayout& layout, const RingJobs& shape) {
  if (layout.options().rails > 1) {
    return Fail(ErrorCode::kUnsupported, "the ring jobs are for hosts with one NIC");
  }
  const int leaves = layout.options().LeafCount();
  Experiment experiment{.name = shape.name};
  experiment.workload.segment_bytes = kSegmentBytes;
  for (int job = 0; job < shape.jobs; ++job) {
    std::vector<std::string> hosts;
    for (int leaf = 0; leaf < leaves; ++leaf) {
      for (int stage = 0; stage < shape.stages; ++stage) {
        const int of_leaf = job * shape.stages + stage;
        hosts.push_back(layout.NicName(leaf * layout.options().hosts_per_leaf + of_leaf));
      }
    }
    auto placed = traffic::PlaceParallelJob({.id = std::string(1, static_cast<char>('A' + job)),
                                             .tensor = 1,
                                             .pipeline = shape.stages,
                                             .data = leaves,
                                             .bytes_per_gpu = kRingBytes,
                                             .epochs = shape.epochs,
                                             .compute_seconds = kComputeSeconds},
                                            hosts);
    if (!placed) return Propagate(placed);
    experiment.workload.jobs.push_back(std::move(*placed));
  }
  SetIdeal(layout, experiment);
  return experiment;
}

Result<Experiment> MakeRailRings(const lab::LabLayout& layout, int epochs) {
  const lab::LabOptions& shape = layout.options();
  const int groups = shape.LeafCount() / shape.rails;
  traffic::Job job{.id = "A", .epochs = epochs, .compute_seconds = kComputeSeconds};
  for (int rail = 0; rail < shape.rails; ++rail) {
    traffic::Ring& ring = job.rings.emplace_back(traffic::Ring{.bytes = kRingBytes});
    for (int place = 0; place < shape.hosts_per_leaf; ++place) {
      for (int group = 0; group < groups; ++group) {
        const int leaf = group * shape.rails + rail;
        ring.hosts.push_back(layout.NicName(leaf * shape.hosts_per_leaf + place));
      }
    }
  }
  if (job.rings.front().hosts.size() < 2) {
    return Fail(ErrorCode::kInvalidArgument, "a ring needs two hosts (use a larger lab)");
  }
  Experiment experiment{.name = "rail-rings"};
  experiment.workload.segment_bytes = kSegmentBytes;
  experiment.workload.jobs.push_back(std::move(job));
  SetIdeal(layout, experiment);
  return experiment;
}

Result<Experiment> MakeTwoRings(const lab::LabLayout& layout, int epochs) {
  return MakeRingJobs(layout, {.name = "two-rings", .jobs = 2, .stages = 2, .epochs = epochs});
}

}  // namespace espalier::demo
