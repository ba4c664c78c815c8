#pragma once

#include <ctime>

#include "common/base/time/event_loop.h"

namespace espalier::bench {

// What flows of a measurement have.
struct PathSetCase {
  int paths = 1;              // of each flow
  bool has_standbys = false;  // one for each path
  bool tells_links = false;   // the controller tells the links of all paths
};

struct PathSetOptions {
  int hosts = 256;
  int flows = 4;  // of each host
  int spines = 16;
};

// Per flow, if nothing else is said.
struct PathSetFigures {
  // From the controller to agents.
  double assignment_bytes = 0;  // of the first push with ports
  double all_push_bytes = 0;    // with all pushes until the standbys are there
  // From agents to the controller.
  double opening_bytes = 0;
  double progress_bytes = 0;  // of one report
  double health_bytes = 0;    // of one report; there are two a second
  // Processor time of the controller.
  double assignment_us = 0;  // from the report that opens the flow to its push
  double standbys_us = 0;    // afterwards, until the standbys are there
  double rest_us = 0;        // in the second after that
  double progress_us = 0;    // for one report
  double health_us = 0;
  double controller_kib = 0;  // memory of the controller
  double agent_us = 0;        // processor time of the agent in a second
  double agent_kib = 0;       // memory of the agent
};

// Processor time of the calling thread.
inline double ThreadCpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// What the process has allocated now.
double AllocatedKib();

// Lets flows open at a controller, under virtual time and without connections, and adds what that
// costs to the figures.
void MeasureController(const PathSetOptions& options, const PathSetCase& with,
                       PathSetFigures& figures);
// The same for an agent whose flows are busy and progress.
void MeasureAgent(const PathSetOptions& options, const PathSetCase& with, PathSetFigures& figures);

}  // namespace espalier::bench
