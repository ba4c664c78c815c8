// burst_load_bench: measures what bursts of long-lived flows cost a controller over real ZeroMQ
// connections, and an agent. docs/benchmarks.md has figures and explains them.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "agent/flows/flow_reporter.h"
#include "common/base/check.h"
#include "common/files/json_writer.h"
#include "proto/encode.h"
#include "tests/bench/burst_load.h"
#include "tests/bench/control_loop_subject.h"

namespace espalier::bench {
namespace {

using namespace std::chrono_literals;

struct Options {
  BurstLoadOptions load;
  double seconds = 10;
  double learning_seconds = 20;  // longer than it takes: on a busy machine, reports are late
  double disturbances = 2;       // a second
  std::size_t decisions = 200;   // of fewer, a 99th percentile means nothing
  bool metrics = false;
  bool json = false;
};

constexpr double kMostSecondsUntilDecided = 90;

struct Column {
  std::string key;
  std::string text;
  double value = 0;
};

double PercentileUs(const std::vector<double>& sorted_seconds, double percent) {
  if (sorted_seconds.empty()) return 0;
  const auto rank =
      static_cast<std::size_t>(percent / 100 * static_cast<double>(sorted_seconds.size()));
  return 1e6 * sorted_seconds[std::min(rank, sorted_seconds.size() - 1)];
}

// The value of a counter in this text (SubjectProcess::Metrics).
double CounterIn(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + " ");
  ESPALIER_CHECK(at != std::string::npos, "name={}", name);
  return std::stod(text.substr(at + name.size() + 2));
}

// How many of a histogram's values lie below each limit, in seconds, ascending.
std::map<double, double> BucketsIn(const std::string& text, const std::string& name) {
  const std::string head = "\n" + name + "_bucket{le=\"";
  std::map<double, double> buckets;
  for (auto at = text.find(head); at != std::string::npos; at = text.find(head, at + 1)) {
    const std::size_t limit = at + head.size();
    const std::string_view rest = std::string_view(text).substr(limit);
    if (!rest.starts_with("+Inf")) {
      buckets[std::stod(text.substr(limit))] = std::stod(text.substr(text.find("} ", limit) + 2));
    }
  }
  return buckets;
}

// The upper limit of the bucket with this percentile of what a histogram has got between two texts.
double PercentileUs(const std::string& before, const std::string& after, const std::string& name,
                    double percent) {
  auto buckets = BucketsIn(after, name);
  for (const auto& [limit, count] : BucketsIn(before, name)) buckets[limit] -= count;
  const double all = CounterIn(after, name + "_count") - CounterIn(before, name + "_count");
  for (const auto& [limit, count] : buckets) {
    if (all > 0 && count >= percent / 100 * all) return 1e6 * limit;
  }
  return 0;
}

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Processor time of an agent for its flows: it looks at them every 2 ms, finds their edges and
// encodes its reports.
struct AgentCost {
  double us_per_edge = 0;
  double us_per_second = 0;
};
AgentCost MeasureAgent(const BurstLoadOptions& options) {
  constexpr Duration kLook = 2ms;
  constexpr int kSeconds = 200;
  agent::FlowMeter meter({});
  agent::FlowReporter reporter({});
  std::vector<agent::FlowSample> samples(static_cast<std::size_t>(options.flows));
  TimePoint now{1h};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].id = wire::LocalFlowId(i + 1);
    samples[i].job = "train";
    samples[i].sent_bytes = 1 << 30;
    samples[i].edges = {.count = 2, .last = now};
  }
  const auto half = Duration(static_cast<std::int64_t>(1e9 / options.edges_per_second));
  std::uint64_t sequence = 0;
  std::size_t bytes = 0;
  const double before = CpuSeconds();
  for (const TimePoint end = now + std::chrono::seconds(kSeconds); now < end; now += kLook) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      // Each flow is busy for half of its period; flows of a phase change together.
      const auto shift = static_cast<std::int64_t>(i) % options.phases * half * 2 / options.phases;
      const auto number = (now.time_since_epoch() + shift) / half;
      const bool is_busy = number % 2 == 1;
      agent::SourceEdges& source = samples[i].edges;
      samples[i].outstanding_bytes = is_busy ? 1 << 20 : 0;
      samples[i].sent_bytes += is_busy ? 12'500'000 : 0;
      if (is_busy != (source.count % 2 == 1)) {
        source = {.count = source.count + 1, .last = now, .between = half};
      }
    }
    const auto measures = meter.Measure(now, samples);
    for (wire::FlowReport& report :
         reporter.ReportChanges(now, measures, [](const auto&) { return agent::PortInUse{}; })) {
      report.sequence = ++sequence;
      bytes += wire::Encode({1, std::move(report)}).size();
    }
  }
  const std::uint64_t edges = reporter.edge_rows();
  const double seconds = CpuSeconds() - before;
  ESPALIER_CHECK(edges > 0 && bytes > 0, "edges={} bytes={}", edges, bytes);
  return {1e6 * seconds / static_cast<double>(edges), 1e6 * seconds / kSeconds};
}

// Returns the controller's metrics when it has handled all messages, which may take a while on a
// busy machine.
std::string MetricsWhenIdle(const SubjectProcess& subject) {
  constexpr auto kMessages = "espalier_controller_messages_total";
  std::string metrics = subject.Metrics();
  for (double before = -1; CounterIn(metrics, kMessages) != before; metrics = subject.Metrics()) {
    before = CounterIn(metrics, kMessages);
    std::this_thread::sleep_for(50ms);
  }
  return metrics;
}

double RateOf(std::uint64_t count, const BurstLoad::Figures& figures) {
  return static_cast<double>(count) / figures.seconds;
}

// What a run with disturbances shows. The texts are the controller's metrics before it and after.
std::vector<Column> DecidedColumns(const BurstLoad::Figures& decided, const std::string& before,
                                   const std::string& after, double cpu_seconds) {
  const auto p99 = [&](const std::string& name) { return PercentileUs(before, after, name, 99); };
  constexpr auto kPlans = "espalier_phase_plans_computed_total";
  return {
      {"decided_edges", "busy edges that needed a decision, with disturbances",
       static_cast<double>(decided.decided_seconds.size())},
      {"decided_p50_us", "from such an edge to its port: p50, us",
       PercentileUs(decided.decided_seconds, 50)},
      {"decided_p99_us", "the same: p99, us", PercentileUs(decided.decided_seconds, 99)},
      {"turn_wait_p99_us", "of it until its turn began: p99 of all turns below, us",
       p99("espalier_controller_turn_wait_seconds")},
      {"turn_p99_us", "duration of turns: p99 below, us", p99("espalier_controller_turn_seconds")},
      {"decided_late_ms", "the load's reports were late then by at most, ms",
       1e3 * decided.late_seconds},
      {"decided_plans_computed", "plans of phases computed then",
       CounterIn(after, kPlans) - CounterIn(before, kPlans)},
      {"decided_pushes_per_second", "pushes a second to agents then",
       RateOf(decided.pushes, decided)},
      {"decided_orders_per_second", "probe orders a second to agents then",
       RateOf(decided.orders, decided)},
      {"decided_controller_us_per_edge", "controller's processor time per edge then, us",
       1e6 * cpu_seconds / static_cast<double>(decided.edges)},
  };
}

std::vector<Column> Measure(const Options& options) {
  const AgentCost agent = MeasureAgent(options.load);
  const SubjectProcess subject("controller", options.load.agents);
  BurstLoad load(options.load, subject.endpoint());
  load.Connect();
  load.Run(options.learning_seconds);
  const std::string metrics_before = MetricsWhenIdle(subject);
  const auto before = subject.Measure();
  const double own_before = CpuSeconds();
  const BurstLoad::Figures common = load.Run(options.seconds);
  const double own = CpuSeconds() - own_before;
  const std::string metrics_after = MetricsWhenIdle(subject);
  const auto after = subject.Measure();
  const BurstLoad::Figures decided = load.Run(
      options.seconds, {.a_second = options.disturbances,
                        .disturb = [&] { subject.ChangeSpines(); },
                        .fewest_decided = options.decisions,
                        .most_seconds = std::max(options.seconds, kMostSecondsUntilDecided)});
  const auto disturbed = subject.Measure();
  const std::string metrics_disturbed = subject.Metrics();
  const double edges = static_cast<double>(common.edges);
  const auto per_edge = [&](double seconds) { return 1e6 * seconds / edges; };
  if (options.metrics)
    fmt::print(stderr, "{}\n{}\n{}", metrics_before, metrics_after, metrics_disturbed);
  const auto counted = [&](const std::string& name) {
    return CounterIn(metrics_after, name) - CounterIn(metrics_before, name);
  };
  const auto moves = [&](wire::PathReason reason) {
    const auto found = common.moves.find(reason);
    return found == common.moves.end() ? 0.0 : static_cast<double>(found->second);
  };
  std::vector<Column> columns{
      {"edges_per_second", "edges a second", RateOf(common.edges, common)},
      {"late_ms", "the load's reports were late by at most, ms", 1e3 * common.late_seconds},
      {"refused_reports", "of them not sent, as connections were full",
       static_cast<double>(common.refused)},
      {"reports_per_second", "messages a second from agents", RateOf(common.reports, common)},
      {"pushes_per_second", "pushes a second to agents", RateOf(common.pushes, common)},
      {"orders_per_second", "probe orders a second to agents", RateOf(common.orders, common)},
      {"others_per_second", "heartbeats a second to agents", RateOf(common.others, common)},
      {"moved_assigned", "flows moved because of a collision", moves(wire::PathReason::kAssigned)},
      {"moved_predicted", "flows moved to their planned paths",
       moves(wire::PathReason::kPredicted)},
      {"moved_remapped", "flows moved because their port took another path",
       moves(wire::PathReason::kRemapped)},
      {"planned_flows", "flows with a planned path: all, if phases are learned",
       CounterIn(metrics_after, "espalier_phase_plan_flows")},
      {"plans_computed", "plans of phases computed",
       counted("espalier_phase_plans_computed_total")},
      {"bursts_decided", "busy edges that needed a decision",
       counted("espalier_bursts_decided_total")},
      {"late_turns", "turns that began late", counted("espalier_controller_late_turns_total")},
      {"controller_us_per_edge", "controller's processor time per edge, us",
       per_edge(after.cpu_seconds - before.cpu_seconds)},
      {"controller_loop_us_per_edge", "of it on the loop's thread, us",
       per_edge(after.loop_seconds - before.loop_seconds)},
      {"agent_us_per_edge", "agent's processor time per edge, us", agent.us_per_edge},
      {"agent_us_per_second", "agent's processor time per second, us", agent.us_per_second},
      {"load_us_per_edge", "encoding and sending from the load, us per edge", per_edge(own)},
  };
  const auto of_decided = DecidedColumns(decided, metrics_after, metrics_disturbed,
                                         disturbed.cpu_seconds - after.cpu_seconds);
  columns.insert(columns.end(), of_decided.begin(), of_decided.end());
  return columns;
}

void Print(const Options& options, const std::vector<Column>& columns) {
  if (options.json) {
    io::JsonWriter json(true);
    json.BeginObject();
    json.Key("agents").Integer(options.load.agents);
    json.Key("flows").Integer(options.load.agents * options.load.flows);
    for (const Column& column : columns) json.Key(column.key).Double(column.value);
    json.EndObject();
    fmt::print("{}\n", json.Text());
    return;
  }
  fmt::print("{} agents with {} flows each, {} edges a second and flow\n", options.load.agents,
             options.load.flows, options.load.edges_per_second);
  for (const Column& column : columns) fmt::print("{:<58}{:>12.2f}\n", column.text, column.value);
}

int Main(int argc, char** argv) {
  CLI::App app("Measure what bursts of long-lived flows cost over ZeroMQ on loopback.");
  Options options;
  std::string serve;
  app.add_option("--agents", options.load.agents, "Agents")->check(CLI::Range(1, 4096));
  app.add_option("--flows", options.load.flows, "Open flows of each agent")
      ->check(CLI::Range(1, 31));
  app.add_option("--phases", options.load.phases, "Phases of the job")->check(CLI::Range(1, 16));
  app.add_option("--edges", options.load.edges_per_second, "Edges a second of each flow")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "Seconds of each measurement")
      ->check(CLI::PositiveNumber);
  app.add_option("--learning", options.learning_seconds, "Seconds before the first measurement")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--disturbances", options.disturbances,
                 "How often a second a spine is drained or returns while decisions are measured")
      ->check(CLI::PositiveNumber);
  app.add_option("--decisions", options.decisions,
                 "How many decisions to measure; it waits for them for at most 90 seconds")
      ->check(CLI::PositiveNumber);
  app.add_flag("--metrics", options.metrics, "Print the controller's metrics to standard error");
  app.add_flag("--json", options.json, "Print JSON instead of a table");
  app.add_option("--serve", serve, "Run this subject (used by the benchmark itself)");
  CLI11_PARSE(app, argc, argv);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (!serve.empty()) return ServeSubject(serve, options.load.agents) ? 0 : 2;
  Print(options, Measure(options));
  return 0;
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) { return espalier::bench::Main(argc, argv); }
