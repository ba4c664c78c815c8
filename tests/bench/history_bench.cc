// history_bench: measures the memory of the history of a fabric, and what recording and reading it
// cost. docs/benchmarks.md has figures.
#include <benchmark/benchmark.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "controller/history/fabric_history.h"

namespace espalier::controller {
namespace {

// A fabric of 64 leaves and 32 spines with one link between each two, and its hosts.
constexpr std::size_t kSwitchLinks = 2'048;

class Feed {
 public:
  explicit Feed(std::size_t hosts)
      : links_(kSwitchLinks + hosts),
        jobs_(FabricHistory::kMostJobs),
        flows_(FabricHistory::kMostFlows),
        history_(links_.size()) {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      links_[i] = {{static_cast<std::uint8_t>(i), 16}, {200, static_cast<std::uint8_t>(i)}, 0};
    }
    for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
      jobs_[i] = {};
      jobs_[i].job = i;
      jobs_[i].flows = 256;
    }
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      flows_[i] = {};
      flows_[i].source = static_cast<std::int32_t>(i);
    }
  }
  void Add() {
    history_.Add({TimePoint() + std::chrono::seconds(++second_), {}, links_, jobs_, flows_});
  }
  const FabricHistory& history() const { return history_; }
  TimePoint Now() const { return TimePoint() + std::chrono::seconds(second_); }

 private:
  std::vector<LinkRecord> links_;
  std::vector<JobRecord> jobs_;
  std::vector<FlowRecord> flows_;
  FabricHistory history_;
  int second_ = 0;
};

double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  std::size_t resident = 0;
  file >> pages >> resident;
  return static_cast<double>(resident) * 4096;
}

// A whole day, second by second. The number of flows does not matter: the slowest few are kept.
void FillADay(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    const double before = ResidentBytes();
    Feed feed(static_cast<std::size_t>(state.range(0)));
    for (int second = 0; second < 90'000; ++second) feed.Add();
    state.counters["bytes"] = static_cast<double>(feed.history().used_bytes());
    state.counters["budget"] = FabricHistory::kDefaultBudget;
    state.counters["resident"] = ResidentBytes() - before;
    state.counters["hours"] =
        static_cast<double>((feed.Now() - *feed.history().oldest()) / std::chrono::minutes(1)) / 60;
  }
}
BENCHMARK(FillADay)
    ->Arg(16)
    ->Arg(512)
    ->Arg(2'048)
    ->Arg(8'192)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

void AddASample(benchmark::State& state) {
  Feed feed(2'048);
  for ([[maybe_unused]] auto _ : state) feed.Add();
}
BENCHMARK(AddASample)->Unit(benchmark::kMicrosecond)->Iterations(20'000);

void FindAMoment(benchmark::State& state) {
  Feed feed(2'048);
  for (int second = 0; second < 20'000; ++second) feed.Add();
  int ago = 0;
  for ([[maybe_unused]] auto _ : state) {
    ago = (ago + 61) % 19'000;
    benchmark::DoNotOptimize(feed.history().At(feed.Now() - std::chrono::seconds(ago)));
  }
}
BENCHMARK(FindAMoment);

}  // namespace
}  // namespace espalier::controller

BENCHMARK_MAIN();
