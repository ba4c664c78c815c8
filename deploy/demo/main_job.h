#pragma once

#include <string>

#include "common/base/result.h"
#include "deploy/demo/measured_run.h"
#include "deploy/lab/lab_layout.h"

namespace espalier::demo {

// The permutation: every NIC sends to that of the same number on the next leaf (of the same rail,
// if hosts have several NICs), or, in a lab with pods, on the same leaf of the next pod.
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
// One job of a lab with several rails: on each rail a ring over the NICs of all hosts, which takes
// turns among the groups of leaves. Every NIC sends and receives one flow, which crosses the fabric
// if there are two groups or more.
Result<Experiment> MakeRailRings(const lab::LabLayout& layout, int epochs);
// Two jobs, each on every second pair of hosts, with data-parallel rings over the leaves and two
// pipeline stages.
Result<Experiment> MakeTwoRings(const lab::LabLayout& layout, int epochs);

}  // namespace espalier::demo
