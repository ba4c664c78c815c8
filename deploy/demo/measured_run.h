#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/demo/report.h"
#include "deploy/lab/lab.h"
#include "deploy/lab/workload/workload.h"

namespace espalier::demo {

// A workload of the main job, and its figures if no flows collide.
struct Experiment {
  std::string name;
  traffic::Workload workload;
  std::int64_t flow_bytes = 0;  // of every flow; of phased jobs, of every burst
  IdealFigures ideal;
};

// The figures of one run and of the spines' counters.
struct MeasuredRun {
  RunFigures figures;
  bool completed = false;
  int steered_flows = 0;    // (flow, port) that an agent chose and that carried data
  int mismatches = 0;       // of these, counted at another switch than assigned, or at none
  int core_mismatches = 0;  // of these, at another core than assigned
  // Of single flows and rings: the most flows on one direction of a link above a leaf, and above an
  // aggregation switch.
  int max_leaf_link_flows = 0;
  int max_core_link_flows = 0;
};

// Runs an experiment with plain ECMP (daemons null) or under Espalier. The figures of phased jobs
// are those of their later iterations (deploy/demo/phase_figures.h).
Result<MeasuredRun> RunMeasured(const lab::Lab& lab, const Experiment& experiment,
                                std::uint64_t seed, const LabDaemons* daemons);

}  // namespace espalier::demo
