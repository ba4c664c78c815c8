#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// How the jobs of known workloads are laid out.
struct ModelJobOptions {
  int data_parallel = 4;  // copies of a model: the size of its all-reduce rings
  int ranks = 64;         // NICs of a job that is no model
  // NICs on one leaf that make a host. What goes from one to another takes no link of the fabric.
  int nics_per_host = 8;
  int epochs = 10;
  std::uint64_t seed = 1;  // of the hosts and of the starts, which lie within 10 seconds
};

// The names that MakeModelJobs knows.
inline constexpr std::string_view kModelJobNames = "bloom, gpt3, llama, all-to-all, pipeline, tree";

// Makes one job for each name, on random hosts of its own. Phases of which nothing crosses a link
// between hosts are left out.
//
// Models (Routing for Large ML Models, section 5.1 and table 2: BLOOM, GPT-3, LLaMA2-70B) have
// tensor, pipeline and data parallelism. In an iteration each stage computes forwards (a third of
// the computation), reduces activations in its tensor groups and sends them to the next stage. The
// same happens backwards. Then all rings of data parallelism reduce the gradients. Bytes of
// gradients and times of computation are those of the paper's job files. Activations follow from
// the tokens that such a computation processes at 156 Tflop/s a GPU. All are float32.
// Others have `ranks` NICs: `all-to-all` among all; `pipeline` forwards and backwards, with each
// host as a stage; `tree`, a reduction and then a broadcast on binary trees over the hosts.
//
// Errors: kInvalidArgument for an unknown name or options out of range; kFailedPrecondition if the
// fabric has too few NICs.
Result<std::vector<Job>> MakeModelJobs(const fabric::Topology& topology,
                                       std::span<const std::string> names,
                                       const ModelJobOptions& options);

}  // namespace espalier::offline
