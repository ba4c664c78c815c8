#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

// The measurement of all peers, which is that of `espalier bench`: the median over repetitions of
// the slowest rank's time, CPU seconds of all ranks together, and the peak memory of a rank beyond
// its buffers.
namespace peers {

struct Sizes {
  std::size_t count = 0;  // elements of one rank's part
  std::size_t input = 0;  // elements
  std::size_t output = 0;
};

// Sizes for f32; bytes are counted as in nccl-tests.
inline Sizes SizesOf(const std::string& collective, std::size_t bytes, int ranks) {
  const auto all = static_cast<std::size_t>(ranks);
  const bool gathers = collective == "allgather";
  const bool scatters = collective == "reduce_scatter";
  const bool exchanges = collective == "alltoall";
  const std::size_t count = bytes / sizeof(float) / (gathers || scatters || exchanges ? all : 1);
  return {count, count * (scatters || exchanges ? all : 1),
          count * (gathers || exchanges ? all : 1)};
}

inline double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

inline double PeakBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

// Prints "bytes seconds cpu_seconds extra_bytes" at rank 0. `call` runs the collective; `maximum`
// and `sum` combine a number over all ranks and act as barriers.
template <typename Call, typename Maximum, typename Sum>
void Measure(std::size_t bytes, const Sizes& sizes, int rank, int repetitions, const Call& call,
             const Maximum& maximum, const Sum& sum) {
  const std::size_t batch = std::clamp<std::size_t>((1 << 20) / bytes, 1, 200);
  call();
  call();
  const double cpu_begin = CpuSeconds();
  std::vector<double> times;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    maximum(0);
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t c = 0; c < batch; ++c) call();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    times.push_back(maximum(time.count() / static_cast<double>(batch)));
  }
  std::sort(times.begin(), times.end());
  const double cpu = sum((CpuSeconds() - cpu_begin) / static_cast<double>(batch) / repetitions);
  const double buffers = static_cast<double>((sizes.input + sizes.output) * sizeof(float));
  const double extra = maximum(std::max(0.0, PeakBytes() - buffers));
  if (rank == 0) std::printf("%zu %.9f %.9f %.0f\n", bytes, times[times.size() / 2], cpu, extra);
}

}  // namespace peers
