#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "controller/ledger/burst_costs.h"
#include "tests/controller/routing/test_fabric.h"

// Measures how long the costs of one burst take, on 32 leaves x 32 spines.
namespace espalier::controller {
namespace {

void BM_BurstCosts(benchmark::State& state) {
  const auto flows_in_all = static_cast<std::size_t>(state.range(0));
  const auto fabric = Fabric::LeafSpine(32, 32);
  std::mt19937 random(1);
  std::vector<BurstFlow> flows;
  for (const Commodity& commodity :
       RandomFlows(random, 32, static_cast<std::uint32_t>(flows_in_all / 32))) {
    BurstFlow& flow = flows.emplace_back();
    flow = {.source = commodity.source,
            .destination = commodity.destination,
            .key = random() + 1ULL,
            .bytes = 1e6};
    flow.paths.fill(kNoPath);
  }
  BurstCostModel model(fabric->view);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(model.Compute(flows, flows.size()));
  }
  state.SetItemsProcessed(state.iterations() * BurstCostModel::StepsOf(flows.size()));
}
BENCHMARK(BM_BurstCosts)->Arg(64)->Arg(512)->Arg(4'096)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace espalier::controller

BENCHMARK_MAIN();
