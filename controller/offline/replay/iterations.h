#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "controller/offline/replay/replay.h"
#include "controller/offline/simulation/simulator.h"

namespace espalier::offline {

// The iterations of jobs: when each begins, which flows start in it and when, as clockwork that
// chance disturbs. What is drawn for an iteration is the same whatever was decided before: it
// depends on the seed, the job, the iteration and the purpose alone. Times in nanoseconds. The
// workloads (the same jobs, the second with every ring turned round) and the options must outlive
// it. Thread safety: one thread.
class Iterations {
 public:
  Iterations(const Workload& workload, const Workload& turned, const ReplayOptions& options);

  // Jobs do not begin in step.
  std::int64_t FirstStart(std::uint32_t job) const;

  struct FlowStart {
    std::int64_t time = 0;
    std::uint32_t flow = 0;  // of the workload
  };
  // The next iteration of a job begins: its flows in the order of the workload; nothing where the
  // job has done all of its iterations.
  std::optional<std::vector<FlowStart>> Begin(std::uint32_t job, std::int64_t now);

  struct End {
    std::int64_t took = 0;  // the All-Reduce
    std::int64_t next = 0;  // when the next iteration begins
    bool counts = false;    // it comes after those that go into learning
  };
  // A flow of the job has ended: set where it was the iteration's last.
  std::optional<End> EndFlow(std::uint32_t job, std::int64_t now);

  // The job's present iteration comes after those that go into learning.
  bool Counts(std::uint32_t job) const { return jobs_[job].iteration > options_.learning; }
  // Whether this is the first call in the job's iteration.
  bool Announce(std::uint32_t job);
  // As it is in its job's present iteration.
  const SimulatedFlow& FlowAt(std::uint32_t flow) const;
  // One of so many paths, at random as ECMP would; kNoPath of none.
  std::int32_t DrawPath(std::uint32_t flow, std::size_t paths) const;

 private:
  // What chance decides.
  enum class Purpose : std::uint8_t {
    kOffset,
    kCompute,
    kLater,
    kLateness,
    kStraggles,
    kBy,
    kPath
  };
  struct JobRun {
    int iteration = 0;
    double compute_ns = 0;
    std::int64_t began = 0;
    std::size_t open_flows = 0;
    bool is_announced = false;
  };

  // Uniform below 1.
  double Draw(std::uint32_t job, Purpose purpose, std::uint32_t subject = 0) const;
  std::int64_t Vary(double ns, std::uint32_t job, Purpose purpose) const;

  const Workload& workload_;
  const Workload& turned_;
  const ReplayOptions& options_;
  std::vector<JobRun> jobs_;
};

}  // namespace espalier::offline
