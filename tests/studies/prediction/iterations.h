#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "controller/offline/simulation/simulator.h"
#include "tests/studies/prediction/replay.h"

namespace espalier::offline {

// The iterations of jobs: when each begins, and which flows start in it and when. They are regular,
// with random disturbances. The random values of an iteration depend only on the seed, the job, the
// iteration and their purpose, so that they are the same whatever was decided before. Times are in
// nanoseconds. The workloads (the same jobs, the second with every ring reversed) and the options
// must outlive it.
// Thread safety: one thread.
class Iterations {
 public:
  Iterations(const Workload& workload, const Workload& reversed, const ReplayOptions& options);

  // When the job's first iteration begins, which differs between jobs.
  std::int64_t FirstStart(std::uint32_t job) const;

  struct FlowStart {
    std::int64_t time = 0;
    std::uint32_t flow = 0;  // of the workload
  };
  // Begins the next iteration of a job and returns its flows in the order of the workload; none
  // after the job's last iteration.
  std::optional<std::vector<FlowStart>> Begin(std::uint32_t job, std::int64_t now);

  struct End {
    std::int64_t took = 0;  // duration of the all-reduce
    std::int64_t next = 0;  // when the next iteration begins
    bool counts = false;    // it follows the learning iterations
  };
  // A flow of the job has ended. Returns the end of the iteration if the flow was its last.
  std::optional<End> EndFlow(std::uint32_t job, std::int64_t now);

  // The job's present iteration follows the learning iterations.
  bool Counts(std::uint32_t job) const { return jobs_[job].iteration > options_.learning; }
  // Returns whether this is the first call in the job's present iteration.
  bool Announce(std::uint32_t job);
  // The flow as it is in its job's present iteration.
  const SimulatedFlow& FlowAt(std::uint32_t flow) const;
  // Draws one of `paths` paths at random, as ECMP would; kNoPath if there are none.
  std::int32_t DrawPath(std::uint32_t flow, std::size_t paths) const;

 private:
  // What a random value decides.
  enum class Purpose : std::uint8_t {
    kOffset,
    kCompute,
    kCollectiveOffset,
    kFlowDelay,
    kIsStraggler,
    kStragglerDelay,
    kPath
  };
  struct JobRun {
    int iteration = 0;
    double compute_ns = 0;
    std::int64_t began = 0;
    std::size_t open_flows = 0;
    bool is_announced = false;
  };

  // A uniform random value in [0, 1).
  double Draw(std::uint32_t job, Purpose purpose, std::uint32_t subject = 0) const;
  std::int64_t Vary(double ns, std::uint32_t job, Purpose purpose) const;

  const Workload& workload_;
  const Workload& reversed_;
  const ReplayOptions& options_;
  std::vector<JobRun> jobs_;
};

}  // namespace espalier::offline
