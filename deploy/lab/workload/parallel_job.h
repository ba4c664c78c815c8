#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/lab/workload/workload.h"

// Builds the workloads of experiments, on hosts with the names of a topology.
namespace espalier::traffic {

// A permutation: host i sends `bytes` to host (i + shift) mod n. With hosts in leaf order and a
// shift of at least the hosts per leaf, every flow crosses the spines. Errors: kInvalidArgument for
// a shift that is a multiple of n.
Result<Workload> MakeShiftedPermutation(const std::vector<std::string>& hosts, int shift,
                                        std::int64_t bytes);

struct ParallelJob {
  std::string id;
  int tensor = 1;                  // GPUs that share one layer: always on neighbouring hosts
  int pipeline = 1;                // number of stages
  int data = 2;                    // copies of the model: the size of each ring
  std::int64_t bytes_per_gpu = 0;  // gradients that each ring reduces
  int epochs = 1;
  double compute_seconds = 0;
};

// Places one GPU of the job on each host, in the order of `hosts`: tensor dimension innermost, then
// pipeline, then data (RLM, section 5.1). GPUs with the same tensor and pipeline coordinates form a
// ring over the data dimension. Errors: kInvalidArgument for dimensions below 1, fewer than 2
// copies, or fewer hosts than tensor * pipeline * data.
Result<Job> PlaceParallelJob(const ParallelJob& job, const std::vector<std::string>& hosts);

// Returns the hosts in a random order from the seed, as a busy cluster allocates them.
std::vector<std::string> ShuffleHosts(std::vector<std::string> hosts, std::uint64_t seed);

}  // namespace espalier::traffic
