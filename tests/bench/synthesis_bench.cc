#include <benchmark/benchmark.h>

#include <string>

#include "collective/synthesis/concurrent_flow.h"
#include "collective/synthesis/construction.h"
#include "collective/synthesis/finder.h"
#include "collective/synthesis/schedules/bfb.h"
#include "collective/synthesis/schedules/verifier.h"

namespace espalier::synthesis {
namespace {

Network Build(const std::string& text) { return *BuildNetwork(*ParseConstruction(text)); }

std::string Kautz(std::int64_t degree, std::int64_t nodes) {
  return "GenKautz(" + std::to_string(degree) + ", " + std::to_string(nodes) + ")";
}

// The cost of the best BFB schedule of a network without symmetry.
void BM_BfbCost(benchmark::State& state) {
  const Network network = Build(Kautz(state.range(0), state.range(1)));
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(ComputeBfbCost(network.graph)->steps);
  }
}
BENCHMARK(BM_BfbCost)
    ->Args({4, 1024})
    ->Args({8, 1024})
    ->Args({16, 1024})
    ->Args({4, 4096})
    ->Unit(benchmark::kMillisecond);

// The same schedule itself.
void BM_BfbSchedule(benchmark::State& state) {
  const Network network = Build(Kautz(state.range(0), state.range(1)));
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(MakeBfbAllgather(network.graph)->sends.size());
  }
}
BENCHMARK(BM_BfbSchedule)->Args({4, 1024})->Args({8, 1024})->Unit(benchmark::kMillisecond);

void BM_VerifySchedule(benchmark::State& state) {
  const Network network = Build(Kautz(state.range(0), state.range(1)));
  const Schedule schedule = *MakeBfbAllgather(network.graph);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(VerifySchedule(network.graph, schedule)->steps);
  }
}
BENCHMARK(BM_VerifySchedule)->Args({4, 1024})->Args({8, 1024})->Unit(benchmark::kMillisecond);

// The cost on a network with translations, which one node stands for.
void BM_BfbCostFromOneNode(benchmark::State& state, const std::string& text) {
  const Network network = Build(text);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(ComputeBfbCost(network.graph)->steps);
  }
}
BENCHMARK_CAPTURE(BM_BfbCostFromOneNode, circulant, "Circulant(1024)")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_BfbCostFromOneNode, torus, "Torus(8, 8, 16)")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_BfbCostFromOneNode, hypercube, "Hamming(10, 2)")
    ->Unit(benchmark::kMillisecond);

// The best all-to-all, exactly, on networks with translations.
void BM_AllToAll(benchmark::State& state, const std::string& text) {
  const Network network = Build(text);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(ComputeAllToAll(network.graph)->routing.size());
  }
}
BENCHMARK_CAPTURE(BM_AllToAll, circulant, "Circulant(1024)")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AllToAll, torus, "Torus(8, 8, 16)")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AllToAll, hypercube, "Hamming(10, 2)")->Unit(benchmark::kMillisecond);

// All Pareto-efficient networks of so many nodes.
void BM_FindNetworks(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        FindNetworks({.nodes = state.range(0), .degree = state.range(1)})->size());
  }
}
BENCHMARK(BM_FindNetworks)
    ->Args({1024, 4})
    ->Args({2000, 4})
    ->Args({1999, 4})
    ->Args({1024, 8})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace espalier::synthesis

BENCHMARK_MAIN();
