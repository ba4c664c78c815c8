#pragma once

#include <cstdint>

#include "common/base/time/event_loop.h"
#include "deploy/lab/workload/workload.h"

namespace espalier::traffic {

// Tells how long a phased job computes, and how far its iterations are apart. Both vary by the
// job's jitter, evenly and independently of one another. All hosts of the job draw the same times
// from the same seed, as ranks of one job take the same steps. Pure.
class PhaseSchedule {
 public:
  PhaseSchedule(const PhasedJob& job, int job_index, std::uint64_t seed);

  // The time that the job computes before a phase.
  Duration ComputeTime(int iteration, int phase) const;
  // The least time from the start of this iteration to the start of the next one.
  Duration Period(int iteration) const;

 private:
  Duration Vary(double seconds, int iteration, int draw) const;

  std::vector<double> compute_seconds_;
  double period_seconds_;
  double jitter_;
  std::uint64_t seed_;
};

}  // namespace espalier::traffic
