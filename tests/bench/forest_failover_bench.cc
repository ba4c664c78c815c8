// Measures jobs with a forest, from the operator's command until all agents have put the plan in
// force: the start of a job, and the failure of a link under one, with a backup forest (1) and
// without (0). Controller and agents share one thread, and probes are answered at once. The time is
// therefore the processor time of the controller's work and of the agents' messages. What the
// controller computes in the background waits until all agents have the plan.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "controller/forests/plan_delivery.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
// Processor time of this process in seconds, which other processes do not lengthen.
double ProcessorSeconds() {
  timespec used = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

double SecondsSince(double start) { return ProcessorSeconds() - start; }

const TreeJob& JobIn(Cluster& cluster) { return cluster.controller().jobs().all().at("train"); }

// Background work that runs when the benchmark says so.
class Background {
 public:
  void SetIn(ControllerOptions& options) {
    options.background = [this](auto work, auto done) {
      waiting_.emplace_back(std::move(work), std::move(done));
    };
  }
  // Runs it, and all that follows from it.
  void Finish(Cluster& cluster) {
    cluster.Settle();
    while (!waiting_.empty()) {
      const auto [work, done] = std::move(waiting_.front());
      waiting_.pop_front();
      work();
      done();
      cluster.Settle();
    }
  }

 private:
  std::deque<std::pair<std::function<void()>, std::function<void()>>> waiting_;
};

void AwaitBackupForests(Cluster& cluster, Background& background) {
  const TreeJobs& jobs = cluster.controller().jobs();
  while (
      jobs.ready().Next(cluster.state().topology.version(), cluster.state().flow_paths.changes())) {
    cluster.Advance(100ms);
    background.Finish(cluster);
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

ControllerOptions OptionsOf(bool plan_ahead, Background& background) {
  ControllerOptions options;
  options.fabric_hashes_protocol = false;
  options.verification.interval = {};
  options.plan_ahead = plan_ahead;
  background.SetIn(options);
  return options;
}

void ConnectAll(Cluster& cluster) {
  for (int i = 0; i < cluster.hosts(); ++i) cluster.host(i).features.push_back("rank_programs");
  cluster.ConnectAll();
}

void Start(Cluster& cluster, Background& background) {
  cluster.controller().actions().StartJob(
      JobOfAll(cluster), {}, [](const auto& outcome) { ESPALIER_CHECK(outcome.has_value()); });
  background.Finish(cluster);
  ESPALIER_CHECK(cluster.controller().jobs().StatusOf(JobIn(cluster)) == JobStatus::kReady);
}

// `part_bytes`: the largest program of a rank plan; `whole_bytes`: of all ranks; `peak_MB`: the
// most memory of this process, with the agents and their plans.
void BM_AJobStarts(benchmark::State& bench) {
  SetLogLevel(LogLevel::kError);
  Background background;
  const ControllerOptions options = OptionsOf(/*plan_ahead=*/false, background);
  for ([[maybe_unused]] auto _ : bench) {
    Cluster cluster(ShapeOf(bench), options);
    ConnectAll(cluster);
    const auto start = ProcessorSeconds();
    Start(cluster, background);
    bench.SetIterationTime(SecondsSince(start));
    std::size_t largest = 0;
    for (int i = 0; i < cluster.hosts(); ++i) {
      for (const auto& [rank, plan] : cluster.host(i).plans) {
        largest = std::max(largest, plan.program.size());
      }
    }
    bench.counters["part_bytes"] = static_cast<double>(largest);
    bench.counters["whole_bytes"] =
        static_cast<double>(JobIn(cluster).active->forest->program->WholeBytes());
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

// `rerouted`: failures that were answered with the same program on other paths; `kept`: those after
// which no faster forest was found than the one that took over at once;
// `search_s`: the time of the last search; `all_ready_s`: that of computing all backup forests;
// `ready`: failures that found one; `forests`, `MB`: the backup forests.
void BM_AForestsLinkFails(benchmark::State& bench) {
  SetLogLevel(LogLevel::kError);
  const bool is_ready = bench.range(3) != 0;
  Background background;
  Cluster cluster(ShapeOf(bench), OptionsOf(is_ready, background));
  ConnectAll(cluster);
  Start(cluster, background);
  int leaf = 0;
  int kept = 0;
  for ([[maybe_unused]] auto _ : bench) {
    const std::string link = "leaf" + std::to_string(leaf++ % bench.range(1)) + "--spine0";
    if (is_ready) {
      const auto start = ProcessorSeconds();
      AwaitBackupForests(cluster, background);
      bench.counters["all_ready_s"] = SecondsSince(start);
    }
    const std::uint64_t before = JobIn(cluster).active->version;
    auto start = ProcessorSeconds();
    ESPALIER_CHECK(cluster.ChangeLink(link, IntentAction::kFail).has_value());
    cluster.Settle();
    bench.SetIterationTime(SecondsSince(start));
    const std::uint64_t after = JobIn(cluster).active->version;
    ESPALIER_CHECK(after > before && !JobIn(cluster).next);
    ESPALIER_CHECK(UnacknowledgedRanks(cluster.state(), JobIn(cluster)).empty());
    start = ProcessorSeconds();
    background.Finish(cluster);
    bench.counters["search_s"] = SecondsSince(start);
    kept += JobIn(cluster).active->version == after ? 1 : 0;
    ESPALIER_CHECK(cluster.controller().jobs().StatusOf(JobIn(cluster)) == JobStatus::kReady);
    const bool is_last = leaf == static_cast<int>(bench.max_iterations);
    if (is_last) continue;
    ESPALIER_CHECK(cluster.ChangeLink(link, IntentAction::kRestore).has_value());
    cluster.controller().actions().Recompute({}, [](const auto&) {});
    background.Finish(cluster);
  }
  bench.counters["kept"] = kept;
  bench.counters["rerouted"] =
      static_cast<double>(cluster.CounterValue("espalier_controller_forests_rerouted_total"));
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
BENCHMARK(BM_AForestsLinkFails)
    ->Args({8, 16, 16, 0})
    ->Args({16, 32, 32, 0})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace espalier::controller

BENCHMARK_MAIN();
