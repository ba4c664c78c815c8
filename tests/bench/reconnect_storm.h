#pragma once

#include "tests/bench/control_loop_load.h"
#include "tests/bench/control_loop_subject.h"

namespace espalier::bench {

struct StormFigures {
  double connect_seconds = 0;
  double reconnect_seconds = 0;
  double resident_mib = 0;  // of the subject, with all agents connected
  double kib_per_agent = 0;
};

// Connects all agents, disconnects all of them at once, and measures the time until the last one
// has reconnected and has a port for every flow. The agents run in `processes` processes, because a
// process has a limited number of descriptors; each agent needs several, and twice as many in the
// storm. The caller must have one thread.
StormFigures MeasureStorm(const SubjectProcess& subject, const LoadOptions& options, int processes);

}  // namespace espalier::bench
