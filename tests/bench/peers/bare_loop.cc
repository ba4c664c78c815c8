// A lower bound for an all-reduce of f32 between processes of one host: every process reads its
// share of all inputs and writes the sums to all outputs with streaming stores, in shared memory
// that is mapped before, without calls or checks. Built and run by tests/bench/compare_allreduce.
// usage: bare_loop PROCESSES REPETITIONS BYTES...
#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/bench/peers/measure.h"

namespace {

constexpr int kMaxProcesses = 64;

struct Meeting {
  std::atomic<int> arrived{0};
  double values[2][kMaxProcesses] = {};
};

class Process {
 public:
  Process(Meeting& meeting, int rank, int size) : meeting_(meeting), rank_(rank), size_(size) {}

  void Meet() {
    meeting_.arrived.fetch_add(1);
    const int all = ++meetings_ * size_;
    for (int spins = 0; meeting_.arrived.load() < all; ++spins) {
      if (spins > 200) sched_yield();
    }
  }

  template <typename Combine>
  double Reduce(double value, const Combine& combine) {
    double* values = meeting_.values[++reductions_ % 2];
    values[rank_] = value;
    Meet();
    double result = values[0];
    for (int peer = 1; peer < size_; ++peer) result = combine(result, values[peer]);
    return result;
  }

  // The vectors follow one another, inputs first, at a distance of `stride` floats.
  void AllReduce(float* memory, std::size_t stride, std::size_t count) {
    constexpr std::size_t kLine = 16;
    const auto size = static_cast<std::size_t>(size_);
    const auto rank = static_cast<std::size_t>(rank_);
    const std::size_t lines = count / kLine;
    const std::size_t begin = lines * rank / size * kLine;
    const std::size_t end = lines * (rank + 1) / size * kLine;
    float* outputs = memory + size * stride;
    for (std::size_t at = begin; at < end; at += kLine) {
      __m256 low = _mm256_setzero_ps();
      __m256 high = _mm256_setzero_ps();
      for (std::size_t i = 0; i < size; ++i) {
        low = _mm256_add_ps(low, _mm256_load_ps(memory + i * stride + at));
        high = _mm256_add_ps(high, _mm256_load_ps(memory + i * stride + at + 8));
      }
      for (std::size_t i = 0; i < size; ++i) {
        _mm256_stream_ps(outputs + i * stride + at, low);
        _mm256_stream_ps(outputs + i * stride + at + 8, high);
      }
    }
    _mm_sfence();
    Meet();
  }

 private:
  Meeting& meeting_;
  int rank_;
  int size_;
  int meetings_ = 0;
  int reductions_ = 0;
};

template <typename T>
T* Share(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  return static_cast<T*>(memory);
}

void Run(Meeting& meeting, float* memory, int rank, int size, int repetitions, std::size_t bytes,
         std::size_t stride) {
  Process process(meeting, rank, size);
  const std::size_t count = bytes / sizeof(float);
  std::fill_n(memory + static_cast<std::size_t>(rank) * stride, stride, 1.0F);
  std::fill_n(memory + static_cast<std::size_t>(size + rank) * stride, stride, 0.0F);
  process.Meet();
  peers::Measure(
      bytes, {count, count, count}, rank, repetitions,
      [&] { process.AllReduce(memory, stride, count); },
      [&](double value) {
        return process.Reduce(value, [](double a, double b) { return std::max(a, b); });
      },
      [&](double value) {
        return process.Reduce(value, [](double a, double b) { return a + b; });
      });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int size = std::clamp(std::atoi(argv[1]), 1, kMaxProcesses);
  for (int i = 3; i < argc; ++i) {
    const std::size_t bytes = std::stoull(argv[i]);
    const std::size_t stride = (bytes + 4095) / 4096 * 4096 / sizeof(float);
    const std::size_t all = 2 * static_cast<std::size_t>(size) * stride * sizeof(float);
    auto* meeting = new (Share<void>(sizeof(Meeting))) Meeting;
    auto* memory = Share<float>(all);
    for (int rank = 0; rank < size; ++rank) {
      if (fork() != 0) continue;
      Run(*meeting, memory, rank, size, std::atoi(argv[2]), bytes, stride);
      std::fflush(stdout);
      _exit(0);
    }
    while (wait(nullptr) > 0) {
    }
    munmap(memory, all);
    munmap(meeting, sizeof(Meeting));
  }
  return 0;
}
