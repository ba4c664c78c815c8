#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "deploy/lab/workload/workload.h"

namespace espalier::traffic {

// Training jobs of tensor, pipeline and data parallelism that share a leaf-spine fabric and all of
// whose groups cross the leaves (RLM, section 5.1).
//
// Each job has hosts_per_leaf / jobs hosts of every leaf, each of which is one pipeline stage. The
// leaves form groups of four: at every stage, leaves l and l^1 hold a tensor group, l and l^2 the
// two replicas of the data-parallel ring; the pipeline goes from l to l^3. Thus no two phases share
// a connection, and every phase sends at most one burst from and to each host.
struct PhasedJobShape {
  int leaves = 4;  // a multiple of four
  int hosts_per_leaf = 4;
  int jobs = 2;  // named "A", "B", ...; a divisor of hosts_per_leaf
  int iterations = 10;
  std::int64_t burst_bytes = 1'000'000;
  // Before each phase of the first job; each further job computes a quarter of it longer, so that
  // the jobs drift against each other.
  double compute_seconds = 0.05;
  int jitter_percent = 1;
  int queue_pairs = 1;
};

// The phases of each iteration are "tensor", "forward", "backward" and "all-reduce"; jobs with one
// stage have no pipeline. Host k of leaf l is h<l * hosts_per_leaf + k>.
// Errors: kInvalidArgument for shapes that are not as described.
Result<std::vector<PhasedJob>> MakePhasedJobs(const PhasedJobShape& shape);

}  // namespace espalier::traffic
