// Measures what it costs the controller when flows of open connections become busy and idle: the
// report of an edge from the decoded message to the end of its handling, and a phase plan. All
// figures are of the controller's own work on one thread, without messages.
#include <benchmark/benchmark.h>

#include <chrono>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "controller/planning/phase_plan.h"
#include "tests/bench/intake_fixture.h"

namespace espalier::controller {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kFlowsOfHost = 16;
constexpr int kPhases = 4;  // each flow of a host is in one

// Of this thread, which other programs disturb less than a clock. Reading it takes 0.3 us.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Hosts with 16 connections each, which belong to one job of four phases: in each, every host sends
// over four of its connections. The hosts report edges as agents do.
class World : public IntakeFixture {
 public:
  World(int spines, int leaves, int hosts_per_leaf)
      : IntakeFixture(spines, leaves, hosts_per_leaf),
        hosts_per_leaf_(hosts_per_leaf),
        hosts_(leaves * hosts_per_leaf) {
    for (int host = 0; host < hosts_; ++host) Open(host);
    PlaceNew();
  }

  // All edges of one period; returns the time that handling them takes.
  double RunPeriod() {
    double seconds = 0;
    for (int phase = 0; phase < kPhases; ++phase) {
      for (int edge = 0; edge < 2; ++edge) {
        for (int host = 0; host < hosts_; ++host) seconds += Report(host, phase);
        PlaceNew();
        world_.RunFor(milliseconds(100));
      }
    }
    EndPeriod();
    return seconds;
  }

  double ValueOf(const std::string& metric) const {
    const std::string text = metrics_.Text();
    const std::size_t at = text.find("\n" + metric + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + metric.size() + 2));
  }
  int edges_of_period() const { return hosts_ * kFlowsOfHost * 2; }
  const PhasePlan& plan() const { return bursts_.plan(); }
  State& state() { return state_; }
  const StartPredictor& predictor() const { return predictor_; }
  const ControllerOptions& options() const { return options_; }
  Metrics& metrics() { return metrics_; }

 private:
  // Connections to hosts of other leaves.
  void Open(int host) {
    wire::FlowReport report{.sequence = ++sequences_[host]};
    report.jobs = {"train"};
    report.addresses = {addresses_[static_cast<std::size_t>(host)]};
    for (int i = 0; i < kFlowsOfHost; ++i) {
      const int to = (host + (i + 1) * hosts_per_leaf_) % hosts_;
      report.addresses.push_back(addresses_[static_cast<std::size_t>(to)]);
      wire::OpenedFlow flow;
      flow.id = wire::LocalFlowId(static_cast<std::uint64_t>(i) + 1);
      flow.destination = static_cast<std::uint32_t>(report.addresses.size() - 1);
      report.opened.push_back(flow);
      report.progress.push_back(Row(i, 2));
    }
    edges_[host].assign(kFlowsOfHost, 2);
    intake_.Handle(agents_[static_cast<std::size_t>(host)], report);
  }
  static wire::FlowProgress Row(int flow, std::uint32_t edges) {
    wire::FlowProgress row;
    row.id = wire::LocalFlowId(static_cast<std::uint64_t>(flow) + 1);
    row.outstanding_bytes = edges % 2 == 1 ? 1 << 20 : 0;
    row.edges = edges;
    row.edge_age_us = 500;
    return row;
  }
  double Report(int host, int phase) {
    wire::FlowReport report{.sequence = ++sequences_[host]};
    for (int i = phase; i < kFlowsOfHost; i += kPhases) {
      report.progress.push_back(Row(i, ++edges_[host][static_cast<std::size_t>(i)]));
    }
    const double start = CpuSeconds();
    intake_.Handle(agents_[static_cast<std::size_t>(host)], report);
    return CpuSeconds() - start;
  }

  int hosts_per_leaf_;
  int hosts_;
  std::map<int, std::uint64_t> sequences_;
  std::map<int, std::vector<std::uint32_t>> edges_;  // by host, then flow
};

// The edges of a job whose phases are learned: 1,024 hosts with 16 flows each, or fewer.
void BM_Edges(benchmark::State& bench) {
  World world(32, static_cast<int>(bench.range(0)), 16);
  for (int period = 0; period < 12; ++period) world.RunPeriod();
  const double undecided = world.ValueOf("espalier_bursts_without_decision_total");
  const double decided = world.ValueOf("espalier_bursts_decided_total");
  double edges = 0;
  double seconds = 0;
  for ([[maybe_unused]] auto _ : bench) {
    const double period = world.RunPeriod();
    bench.SetIterationTime(period);
    seconds += period;
    edges += world.edges_of_period();
  }
  bench.counters["ns_per_edge"] = 1e9 * seconds / edges;
  bench.counters["undecided"] =
      (world.ValueOf("espalier_bursts_without_decision_total") - undecided) / (edges / 2);
  bench.counters["decided"] =
      (world.ValueOf("espalier_bursts_decided_total") - decided) / (edges / 2);
  bench.counters["planned_flows"] = static_cast<double>(world.plan().flows().size());
  bench.counters["max_load"] = world.plan().max_load().Value();
  bench.counters["lower_bound"] = world.plan().lower_bound().Value();
}
BENCHMARK(BM_Edges)
    ->Arg(4)
    ->Arg(64)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(20);

// The phase plan of all these flows, from scratch.
void BM_PhasePlan(benchmark::State& bench) {
  World world(32, static_cast<int>(bench.range(0)), 16);
  for (int period = 0; period < 12; ++period) world.RunPeriod();
  TimePoint now{std::chrono::hours(1'000)};
  for ([[maybe_unused]] auto _ : bench) {
    PhasePlan plan(world.state(), world.predictor(), world.options(), world.metrics());
    const auto start = Clock::now();
    plan.Refresh(now);
    bench.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
    bench.counters["planned_flows"] = static_cast<double>(plan.flows().size());
  }
}
BENCHMARK(BM_PhasePlan)
    ->Arg(4)
    ->Arg(64)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

// A look at the phases while nothing changes, as every half second: on average of many (0), and one
// that describes all flows (1), as it does while the plan is not up to date.
void BM_PhasePlanLook(benchmark::State& bench) {
  World world(32, 64, 16);
  for (int period = 0; period < 12; ++period) world.RunPeriod();
  PhasePlan plan(world.state(), world.predictor(), world.options(), world.metrics());
  TimePoint now{std::chrono::hours(1'000)};
  for (int look = 0; look < 4; ++look) plan.Refresh(now += PhasePlan::kMinInterval);
  const bool describes = bench.range(0) == 1;
  for ([[maybe_unused]] auto _ : bench) {
    now += describes ? PhasePlan::kMostInterval : PhasePlan::kMinInterval;
    benchmark::DoNotOptimize(plan.Refresh(now));
  }
}
BENCHMARK(BM_PhasePlanLook)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond)->Iterations(100);

}  // namespace
}  // namespace espalier::controller

BENCHMARK_MAIN();
