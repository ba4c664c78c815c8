// Compares reduction kernels with copies of the same memory: bytes read and written per second.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "collective/reduce/reduce.h"

namespace espalier::reduce {
namespace {

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

Memory Allocate(std::size_t bytes) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), &std::free);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

void CountTraffic(benchmark::State& state, std::size_t bytes_per_iteration) {
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes_per_iteration) *
                          static_cast<std::int64_t>(state.iterations()));
}

void BM_Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Memory from = Allocate(bytes);
  const Memory to = Allocate(bytes);
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(to.get(), from.get(), bytes);
    benchmark::ClobberMemory();
  }
  CountTraffic(state, 2 * bytes);
}

// Arguments: bytes of one input, inputs, type, streaming, level of instructions.
void BM_Reduce(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto inputs = static_cast<std::size_t>(state.range(1));
  const auto type = static_cast<DataType>(state.range(2));
  const Stores stores = state.range(3) != 0 ? Stores::kStreaming : Stores::kCached;
  const auto level = static_cast<SimdLevel>(state.range(4));
  if (level > BestSimdLevel())
    return state.SkipWithError("this processor does not support the level");
  std::vector<Memory> memory;
  std::vector<const std::byte*> from;
  for (std::size_t i = 0; i < inputs; ++i) {
    memory.push_back(Allocate(bytes));
    from.push_back(memory.back().get());
  }
  const Memory result = Allocate(bytes);
  std::byte* to = result.get();
  for ([[maybe_unused]] auto _ : state) {
    ReduceAt(level, {.type = type}, from, {&to, 1}, bytes / SizeOf(type), stores);
    benchmark::ClobberMemory();
  }
  constexpr const char* kLevels[] = {"portable", "AVX2", "AVX-512"};
  state.SetLabel(std::string(DataTypeName(type)) + " " + kLevels[state.range(4)] +
                 (stores == Stores::kCached ? "" : " streaming"));
  CountTraffic(state, (inputs + 1) * bytes);
}

constexpr std::int64_t kInL2 = 128 << 10;
constexpr std::int64_t kInMemory = 64 << 20;

BENCHMARK(BM_Memcpy)->Arg(kInL2)->Arg(kInMemory);
BENCHMARK(BM_Reduce)
    ->ArgNames({"bytes", "inputs", "type", "stream", "level"})
    ->ArgsProduct({{kInL2}, {2}, {0, 1, 2, 3, 4, 5, 6, 7}, {0}, {0, 1, 2}})
    ->ArgsProduct({{kInMemory}, {2, 4, 8}, {0, 2, 3}, {0, 1}, {1, 2}});

}  // namespace
}  // namespace espalier::reduce

BENCHMARK_MAIN();
