#include "deploy/lab/workload/phased_jobs.h"

#include <fmt/format.h>

#include <utility>

namespace espalier::traffic {
namespace {

// The changes of the leaf's number within the groups of a job.
constexpr int kTensor = 1;
constexpr int kData = 2;
constexpr int kPipeline = 3;

class JobBuilder {
 public:
  JobBuilder(const PhasedJobShape& shape, int job)
      : shape_(shape), job_(job), stages_(shape.hosts_per_leaf / shape.jobs) {}

  PhasedJob Build() const {
    PhasedJob job{.id = std::string(1, static_cast<char>('A' + job_)),
                  .iterations = shape_.iterations,
                  .jitter_percent = shape_.jitter_percent,
                  .queue_pairs = shape_.queue_pairs};
    job.phases.push_back(MakePhase("tensor", kTensor, 0, stages_, 0));
    if (stages_ > 1) {
      job.phases.push_back(MakePhase("forward", kPipeline, 0, stages_ - 1, 1));
      job.phases.push_back(MakePhase("backward", kPipeline, 1, stages_, -1));
    }
    job.phases.push_back(MakePhase("all-reduce", kData, 0, stages_, 0));
    return job;
  }

 private:
  std::string HostName(int leaf, int stage) const {
    return fmt::format("h{}", leaf * shape_.hosts_per_leaf + job_ * stages_ + stage);
  }

  // Stages first to end - 1 of every leaf send to another leaf's host `up` stages later.
  Phase MakePhase(std::string name, int leaf_change, int first, int end, int up) const {
    Phase phase{.name = std::move(name),
                .compute_seconds = shape_.compute_seconds * (1 + 0.25 * job_)};
    for (int leaf = 0; leaf < shape_.leaves; ++leaf) {
      for (int stage = first; stage < end; ++stage) {
        phase.bursts.push_back(
            {HostName(leaf, stage), HostName(leaf ^ leaf_change, stage + up), shape_.burst_bytes});
      }
    }
    return phase;
  }

  const PhasedJobShape shape_;
  const int job_;
  const int stages_;
};

}  // namespace

Result<std::vector<PhasedJob>> MakePhasedJobs(const PhasedJobShape& shape) {
  if (shape.leaves < 4 || shape.leaves % 4 != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} leaves: phased jobs need a multiple of four", shape.leaves));
  }
  if (shape.jobs < 1 || shape.jobs > 26 || shape.hosts_per_leaf % shape.jobs != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} jobs on {} hosts of each leaf: the hosts cannot be divided evenly",
                            shape.jobs, shape.hosts_per_leaf));
  }
  std::vector<PhasedJob> jobs;
  for (int job = 0; job < shape.jobs; ++job) jobs.push_back(JobBuilder(shape, job).Build());
  return jobs;
}

}  // namespace espalier::traffic
