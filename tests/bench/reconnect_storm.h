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

// All agents connect, then all are disconnected at once: until the last of them is back with a port
// for every flow. They are in `processes` processes, as each agent takes several descriptors, and
// during the storm twice as many, of which a process has a limited number.
// The caller must have one thread.
StormFigures MeasureStorm(const SubjectProcess& subject, const LoadOptions& options, int processes);

}  // namespace espalier::bench
