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
  // Sizes as in nccl-tests: of the vector, or of all ranks' parts together.
  std::size_t min_bytes = 8;
  std::size_t max_bytes = 256 << 20;
  std::size_t factor = 2;
  int repetitions = 9;
  int connections = 1;
  bool binds = false;      // rank i to core i of those that this process may use, going round
  std::string costs_file;  // as CommunicatorOptions has them
  std::string algorithm;
  // Instead of an algorithm: of that kind and so many ranks, and right (CheckCollectivePlan).
  std::shared_ptr<const program::Program> program;
  std::chrono::milliseconds timeout{30'000};
};

struct BenchRow {
  std::size_t bytes = 0;
  // Of one call, on the slowest rank; median and minimum of the repetitions.
  double seconds = 0;
  double minimum_seconds = 0;
  double cpu_seconds = 0;  // of one call, on all ranks together
  // Beyond the caller's buffers, by the rank that has most; never falls from one size to the next.
  double extra_bytes = 0;
  double algbw = 0;  // bytes a second
  double busbw = 0;
  std::int64_t errors = 0;  // elements that were wrong, on all ranks
};

// From the smallest to the largest.
// Errors: kInvalidArgument for sizes that make no sense, and for ranks or repetitions that do not.
Result<std::vector<std::size_t>> ListSizes(const BenchRequest& request);

// Runs f32 collectives between processes of this machine, out of place (a broadcast has one
// buffer). A repetition is a barrier and then as many calls as make it worth measuring.
// Forks: to be called while this process has one thread.
// Errors: kInvalidArgument for sizes that make no sense, kUnavailable or what a rank says.
Result<std::vector<BenchRow>> RunBench(const BenchRequest& request);

}  // namespace espalier::runtime
