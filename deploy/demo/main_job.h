#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/demo/report.h"
#include "deploy/lab/lab.h"
#include "deploy/lab/run_traffic.h"
#include "deploy/lab/traffic/workload.h"

namespace espalier::demo {

// A workload of the main job and what it takes when nothing collides.
struct Experiment {
  std::string name;
  traffic::Workload workload;
  std::int64_t flow_bytes = 0;  // of every flow
  IdealFigures ideal;
};

// 16 hosts of a 4x4x4 lab (any leaf-spine lab whose leaves have equally many hosts): every host
// sends to the same host of the next leaf.
Result<Experiment> MakePermutation(const lab::LabPlan& plan);
// Two jobs, each on every second pair of hosts: data-parallel rings over the leaves, two pipeline
// stages, some epochs.
Result<Experiment> MakeTwoRings(const lab::LabPlan& plan, int epochs);

// One run and what the spines' counters say of it.
struct JudgedRun {
  RunFigures figures;
  bool completed = false;
  int steered_flows = 0;  // (flow, port) that an agent chose and that carried data
  int mismatches = 0;     // of these, counted at another spine than was planned, or at none
};

// Runs an experiment with plain ECMP (daemons null) or under Espalier.
Result<JudgedRun> RunJudged(const lab::Lab& lab, const Experiment& experiment, std::uint64_t seed,
                            const LabDaemons* daemons);

// Runs the experiment under Espalier, and in its middle takes down the link with most flows from
// a spine to their destination's leaf, then tells the controller. Both are restored at the end.
Result<FailureFigures> RunWithFailure(const lab::Lab& lab, const Experiment& experiment,
                                      std::uint64_t seed, const LabDaemons& daemons);

}  // namespace espalier::demo
