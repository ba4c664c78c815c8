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

// A workload of the main job, and its figures if no flows collide.
struct Experiment {
  std::string name;
  traffic::Workload workload;
  std::int64_t flow_bytes = 0;  // of every flow
  IdealFigures ideal;
};

// The permutation: every host sends to the host of the same number on the next leaf. For 4x4x4 labs
// of 16 hosts, and any lab whose leaves have equal numbers of hosts.
Result<Experiment> MakePermutation(const lab::LabLayout& layout);
// Concurrent jobs, each on `stages` hosts of every leaf, with one data-parallel ring over the
// leaves for each pipeline stage.
struct RingJobs {
  std::string name;
  int jobs = 1;
  int stages = 1;
  int epochs = 1;
};
Result<Experiment> MakeRingJobs(const lab::LabLayout& layout, const RingJobs& shape);
// Two jobs, each on every second pair of hosts, with data-parallel rings over the leaves and two
// pipeline stages.
Result<Experiment> MakeTwoRings(const lab::LabLayout& layout, int epochs);

// The figures of one run and of the spines' counters.
struct MeasuredRun {
  RunFigures figures;
  bool completed = false;
  int steered_flows = 0;  // (flow, port) that an agent chose and that carried data
  int mismatches = 0;     // of these, counted at another spine than assigned, or at none
};

// Runs an experiment with plain ECMP (daemons null) or under Espalier.
Result<MeasuredRun> RunMeasured(const lab::Lab& lab, const Experiment& experiment,
                                std::uint64_t seed, const LabDaemons* daemons);

}  // namespace espalier::demo
