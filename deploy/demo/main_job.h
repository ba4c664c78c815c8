#pragma once

#include <string>

#include "common/base/result.h"
#include "deploy/demo/measured_run.h"
#include "deploy/lab/lab_layout.h"

namespace espalier::demo {

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

}  // namespace espalier::demo
