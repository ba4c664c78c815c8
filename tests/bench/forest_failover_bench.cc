// Measures jobs with a forest, from the operator's command until all agents have put the plan in
// force: the start of a job, and the failure of a link under one, with a backup forest (1) and
// without (0). Controller and agents share one thread, and probes are answered at once. The time is
// therefore that of the controller's work and of the agents' messages.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "common/base/check.h"
#include "common/base/log.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const TreeJob& JobIn(Cluster& cluster) { return cluster.controller().jobs().all().at("train"); }

void AwaitBackupForests(Cluster& cluster) {
  const TreeJobs& jobs = cluster.controller().jobs();
  while (
      jobs.ready().Next(cluster.state().topology.version(), cluster.state().flow_paths.changes())) {
    cluster.Advance(100ms);
  }
}

fabric::LeafSpineOptions ShapeOf(const benchmark::State& bench) {
  return {.spines = static_cast<int>(bench.range(0)),
          .leaves = static_cast<int>(bench.range(1)),
          .hosts_per_leaf = static_cast<int>(bench.range(2)),
          .host_rate = BitsPerSecond{800'000'000'000},
          .fabric_rate = BitsPerSecond{100'000'000'000}};
}

JobSpec JobOfAll(const Cluster& cluster) {
  JobSpec spec{.name = "train", .ranks = {}};
  for (int i = 0; i < cluster.hosts(); ++i) spec.ranks.push_back("h" + std::to_string(i));
  return spec;
}

// `part_bytes`: the largest program of a rank plan; `whole_bytes`: of all ranks; `peak_MB`: the
// most memory of this process, with the agents and their plans.
void BM_AJobStarts(benchmark::State& bench) {
  SetLogLevel(LogLevel::kError);
  ControllerOptions options;
  options.fabric_hashes_protocol = false;
  options.verification.interval = {};
  options.plan_ahead = false;
  for ([[maybe_unused]] auto _ : bench) {
    Cluster cluster(ShapeOf(bench), options);
    for (int i = 0; i < cluster.hosts(); ++i) cluster.host(i).features.push_back("rank_programs");
    cluster.ConnectAll();
    const auto start = Clock::now();
    ESPALIER_CHECK(cluster.StartJob(JobOfAll(cluster)).has_value());
    cluster.Settle();
    bench.SetIterationTime(SecondsSince(start));
    ESPALIER_CHECK(cluster.controller().jobs().StatusOf(JobIn(cluster)) == JobStatus::kReady);
    std::size_t largest = 0;
    for (int i = 0; i < cluster.hosts(); ++i) {
      for (const auto& [rank, plan] : cluster.host(i).plans) {
        largest = std::max(largest, plan.program.size());
      }
    }
    bench.counters["part_bytes"] = static_cast<double>(largest);
    bench.counters["whole_bytes"] =
        static_cast<double>(JobIn(cluster).active->forest->program.WholeBytes());
  }
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  bench.counters["peak_MB"] = static_cast<double>(used.ru_maxrss) / 1024;
}
BENCHMARK(BM_AJobStarts)
    ->Args({4, 4, 4})
    ->Args({8, 8, 16})
    ->Args({8, 16, 16})
    ->Args({16, 32, 32})
    ->UseManualTime()
    ->Unit(benchmark::kSecond)
    ->Iterations(1);

void BM_AForestsLinkFails(benchmark::State& bench) {
  SetLogLevel(LogLevel::kError);
  const bool is_ready = bench.range(3) != 0;
  ControllerOptions options;
  options.fabric_hashes_protocol = false;
  options.verification.interval = {};
  options.plan_ahead = is_ready;
  Cluster cluster(ShapeOf(bench), options);
  cluster.ConnectAll();
  ESPALIER_CHECK(cluster.StartJob(JobOfAll(cluster)).has_value());
  cluster.Settle();
  int leaf = 0;
  for ([[maybe_unused]] auto _ : bench) {
    const std::string link = "leaf" + std::to_string(leaf++ % bench.range(1)) + "--spine0";
    if (is_ready) {
      const auto start = Clock::now();
      AwaitBackupForests(cluster);
      bench.counters["all_ready_s"] = SecondsSince(start);
    }
    const std::uint64_t before = JobIn(cluster).active->version;
    const auto start = Clock::now();
    ESPALIER_CHECK(cluster.ChangeLink(link, IntentAction::kFail).has_value());
    cluster.Settle();
    bench.SetIterationTime(SecondsSince(start));
    ESPALIER_CHECK(JobIn(cluster).active->version > before);
    ESPALIER_CHECK(cluster.controller().jobs().StatusOf(JobIn(cluster)) == JobStatus::kReady);
    ESPALIER_CHECK(cluster.ChangeLink(link, IntentAction::kRestore).has_value());
    cluster.Recompute();
    cluster.Settle();
  }
  bench.counters["ready"] =
      static_cast<double>(cluster.CounterValue("espalier_forest_failure_plan_hits_total"));
  bench.counters["forests"] = static_cast<double>(cluster.controller().jobs().ready().size());
  bench.counters["MB"] = static_cast<double>(cluster.controller().jobs().ready().bytes()) / 1e6;
}
BENCHMARK(BM_AForestsLinkFails)
    ->ArgsProduct({{4}, {4}, {4}, {0, 1}})
    ->ArgsProduct({{4}, {8}, {8}, {0, 1}})
    ->ArgsProduct({{8}, {8}, {16}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

}  // namespace
}  // namespace espalier::controller

BENCHMARK_MAIN();
