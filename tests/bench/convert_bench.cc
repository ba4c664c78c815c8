#include <benchmark/benchmark.h>

#include "proto/decode.h"
#include "proto/encode.h"
#include "tests/proto/random_message.h"

// Measures messages and flows per second on one core, for reports of 1, 16 and 64 flows.
namespace espalier::wire {
namespace {

using MakeReport = Message (*)(std::size_t flows);

void CountFlows(benchmark::State& state, std::size_t bytes) {
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["bytes"] = static_cast<double>(bytes);
}

void BM_Encode(benchmark::State& state, MakeReport make) {
  const Message message = make(static_cast<std::size_t>(state.range(0)));
  std::string bytes;
  for ([[maybe_unused]] auto _ : state) {
    bytes = Encode(message);
    benchmark::DoNotOptimize(bytes.data());
  }
  CountFlows(state, bytes.size());
}
BENCHMARK_CAPTURE(BM_Encode, progress, &MakeProgressReport)->Arg(1)->Arg(16)->Arg(64);
BENCHMARK_CAPTURE(BM_Encode, opened, &MakeOpenedReport)->Arg(1)->Arg(16)->Arg(64);

void BM_Decode(benchmark::State& state, MakeReport make) {
  const std::string bytes = Encode(make(static_cast<std::size_t>(state.range(0))));
  Decoder decoder;
  for ([[maybe_unused]] auto _ : state) {
    const auto message = decoder.Decode(bytes);
    if (!message.has_value()) state.SkipWithError(message.error().message.c_str());
    benchmark::DoNotOptimize(message);
  }
  CountFlows(state, bytes.size());
}
BENCHMARK_CAPTURE(BM_Decode, progress, &MakeProgressReport)->Arg(1)->Arg(16)->Arg(64);
BENCHMARK_CAPTURE(BM_Decode, opened, &MakeOpenedReport)->Arg(1)->Arg(16)->Arg(64);

}  // namespace
}  // namespace espalier::wire

BENCHMARK_MAIN();
