#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/program/program.h"
#include "collective/runtime/group/communicator.h"
#include "common/base/result.h"

namespace espalier::runtime {

struct BenchRequest {
  program::CollectiveKind kind = program::CollectiveKind::kAllReduce;
  int ranks = 2;
  Medium medium = Medium::kShared;
  bool registered = false;
  // In bytes, as in nccl-tests: of the vector, or of the parts of all ranks together.
  std::size_t min_bytes = 8;
  std::size_t max_bytes = 256 << 20;
  std::size_t factor = 2;
  int repetitions = 9;
  int connections = 1;
  bool binds = false;      // bind rank i to core i (modulo) of those that this process may use
  std::string costs_file;  // as in CommunicatorOptions
  std::string algorithm;
  // Instead of an algorithm. It must be of `kind` and `ranks`, and pass CheckCollectivePlan.
  std::shared_ptr<const program::Program> program;
  std::chrono::milliseconds timeout{30'000};
};

struct BenchRow {
  std::size_t bytes = 0;
  double seconds = 0;          // of one call on the slowest rank: median of the repetitions
  double minimum_seconds = 0;  // the same: minimum of the repetitions
  double cpu_seconds = 0;      // of one call on all ranks together
  // Memory beyond the caller's buffers, on the rank with the most. It is a peak, so that it never
  // falls from one size to the next.
  double extra_bytes = 0;
  double algbw = 0;  // bytes per second
  double busbw = 0;
  std::int64_t errors = 0;  // wrong elements on all ranks
};

// Returns the sizes to measure, ascending.
// Errors: kInvalidArgument for sizes, ranks or repetitions out of range.
Result<std::vector<std::size_t>> ListSizes(const BenchRequest& request);

// Runs f32 collectives between processes of this machine, out of place (a broadcast has one
// buffer). A repetition is a barrier and then enough calls for a measurable time.
// Forks: call it while this process has one thread.
// Errors: kInvalidArgument for sizes out of range, kUnavailable with the message of a rank.
Result<std::vector<BenchRow>> RunBench(const BenchRequest& request);

}  // namespace espalier::runtime
