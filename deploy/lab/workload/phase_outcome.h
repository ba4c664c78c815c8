#pragma once

#include <span>
#include <string>
#include <vector>

#include "deploy/lab/workload/traffic_report.h"
#include "deploy/lab/workload/workload.h"

namespace espalier::traffic {

// One phase in one iteration, from the reports of all hosts.
struct PhaseOutcome {
  double seconds = 0;                // from the first start of a burst to the last end
  double slowest_burst_seconds = 0;  // of one sender
  double median_burst_seconds = 0;
};

struct IterationOutcome {
  std::vector<PhaseOutcome> phases;
  // Ports that flows began to use since their bursts before.
  int ports_changed = 0;
};

struct PhasedOutcome {
  std::string id;
  std::vector<IterationOutcome> iterations;  // those of which every burst has ended
};

// Returns the outcome of each phased job of the workload, in its order. Pure.
std::vector<PhasedOutcome> SummarisePhases(const Workload& workload,
                                           std::span<const HostReport> reports);

// The figures of a job from an iteration on, when what has to be learned is learned.
struct PhasedFigures {
  // The largest over the phases of the median over the iterations of the slowest burst.
  double slowest_burst_seconds = 0;
  double median_burst_seconds = 0;
  // The median over the iterations of the time of all phases together, without computing.
  double communication_seconds = 0;
  double ports_changed_per_iteration = 0;  // mean
};

// `from` is below the number of iterations.
PhasedFigures FiguresFrom(const PhasedOutcome& outcome, std::size_t from);

}  // namespace espalier::traffic
