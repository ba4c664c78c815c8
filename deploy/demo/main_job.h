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
Result<Experiment> MakePermutation(const lab::LabLayout& plan);
// Jobs side by side, each on `stages` hosts of every leaf: a data-parallel ring over the leaves for
// each pipeline stage.
struct RingJobs {
  std::string name;
  int jobs = 1;
  int stages = 1;
  int epochs = 1;
};
Result<Experiment> MakeRingJobs(const lab::LabLayout& plan, const RingJobs& shape);
// Two jobs, each on every second pair of hosts: data-parallel rings over the leaves, two pipeline
// stages, some epochs.
Result<Experiment> MakeTwoRings(const lab::LabLayout& plan, int epochs);

// One run and what the spines' counters say of it.
struct MeasuredRun {
  RunFigures figures;
  bool completed = false;
  int steered_flows = 0;  // (flow, port) that an agent chose and that carried data
  int mismatches = 0;     // of these, counted at another spine than was planned, or at none
};

// Runs an experiment with plain ECMP (daemons null) or under Espalier.
Result<MeasuredRun> RunMeasured(const lab::Lab& lab, const Experiment& experiment,
                                std::uint64_t seed, const LabDaemons* daemons);

}  // namespace espalier::demo
