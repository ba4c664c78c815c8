#include "deploy/lab/workload/parallel_job.h"

#include <fmt/format.h>

#include <cstddef>
#include <random>
#include <utility>

namespace espalier::traffic {

Result<Workload> MakeShiftedPermutation(const std::vector<std::string>& hosts, int shift,
                                        std::int64_t bytes) {
  const auto count = static_cast<int>(hosts.size());
  if (count < 2 || shift % count == 0 || bytes < 1) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("permutation of {} hosts by {}, {} bytes: no host would send", count,
                            shift, bytes));
  }
  Workload workload;
  for (int i = 0; i < count; ++i) {
    const int target = ((i + shift) % count + count) % count;
    SingleFlow flow;
    flow.source = hosts[static_cast<std::size_t>(i)];
    flow.destination = hosts[static_cast<std::size_t>(target)];
    flow.id = flow.source + ">" + flow.destination;
    flow.bytes = bytes;
    workload.flows.push_back(std::move(flow));
  }
  return workload;
}

Result<Job> PlaceParallelJob(const ParallelJob& job, const std::vector<std::string>& hosts) {
  if (job.tensor < 1 || job.pipeline < 1 || job.data < 2 || job.bytes_per_gpu < 1) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("job {}: tensor and pipeline must be 1 or more, data 2 or more, bytes "
                            "positive",
                            job.id));
  }
  const auto copy = static_cast<std::size_t>(job.tensor) * static_cast<std::size_t>(job.pipeline);
  if (copy * static_cast<std::size_t>(job.data) > hosts.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("job {}: {} hosts are needed, but there are {}", job.id,
                            copy * static_cast<std::size_t>(job.data), hosts.size()));
  }
  Job placed{.id = job.id,
             .epochs = job.epochs,
             .compute_seconds = job.compute_seconds,
             .rings = std::vector<Ring>(copy)};
  for (std::size_t stage = 0; stage < copy; ++stage) {
    placed.rings[stage].bytes = job.bytes_per_gpu;
    for (std::size_t replica = 0; replica < static_cast<std::size_t>(job.data); ++replica) {
      placed.rings[stage].hosts.push_back(hosts[replica * copy + stage]);
    }
  }
  return placed;
}

std::vector<std::string> ShuffleHosts(std::vector<std::string> hosts, std::uint64_t seed) {
  // Avoids std::shuffle, whose order differs between standard libraries.
  std::mt19937_64 random(seed);
  for (std::size_t i = hosts.size(); i > 1; --i) std::swap(hosts[i - 1], hosts[random() % i]);
  return hosts;
}

}  // namespace espalier::traffic
