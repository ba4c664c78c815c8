// Measures how far forecasts of the ends of flows are off, at 10, 50 and 90 % of a phase, relative
// to its duration: agents' meters and reporters tell the controller's intake of flows that send in
// bursts, as programs do that tell more or less. The time is that of one simulated period.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <random>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "agent/flows/flow_reporter.h"
#include "tests/bench/intake_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr int kHosts = 16;
constexpr Duration kLook = 2ms;
constexpr double kBitsPerSecond = 50e9;

// What a program posts at once, and what it tells.
struct Program {
  double portion_bytes = 2 << 20;  // 0: all at once
  bool tells_remaining = false;
  double slow = 0;  // share of phases at half the rate
};

constexpr std::array<Program, 4> kPrograms{
    {{.tells_remaining = true}, {.portion_bytes = 0}, {}, {.slow = 0.2}}};

// One host with one connection, which is busy once in a period.
struct Host {
  explicit Host(AgentId the_agent) : agent(the_agent) {}

  AgentId agent;
  agent::FlowMeter meter{{}};
  agent::FlowReporter reporter{{}};
  agent::FlowSample sample;
  std::uint64_t sequence = 0;
  // Of the present phase:
  TimePoint begins;
  TimePoint ends;
  double bytes = 0;
  double sent_before = 0;
  std::size_t next_point = 0;
};

class World : public IntakeFixture {
 public:
  World(const Program& program, Duration phase)
      : IntakeFixture(4, 4, kHosts / 4), program_(program), phase_(phase) {
    for (std::size_t i = 0; i < kHosts; ++i) {
      Host& host = hosts_.emplace_back(agents_[i]);
      host.sample = {.id = wire::LocalFlowId(1), .job = "train", .movable = true};
      host.sample.source = addresses_[i];
      host.sample.destination = addresses_[(i + 4) % kHosts];
      host.sample.edges = {.count = 2, .last = loop_->Now()};
      host.sample.first_seen = loop_->Now();
    }
  }

  // A phase of all hosts, and a pause. Errors are added to those of the points.
  void RunPeriod(std::array<std::vector<double>, 3>* errors) {
    std::uniform_real_distribution<double> jitter(0.95, 1.05);
    const bool is_slow = std::uniform_real_distribution<double>()(random_) < program_.slow;
    const TimePoint begin = loop_->Now() + 1ms;
    TimePoint last = begin;
    for (Host& host : hosts_) {
      host.sent_before = static_cast<double>(host.sample.sent_bytes);
      host.bytes = kBitsPerSecond / 8 * SecondsOf(phase_);
      const double rate = kBitsPerSecond / 8 * jitter(random_) / (is_slow ? 2 : 1);
      host.begins = begin + Duration(static_cast<std::int64_t>(1e5 * jitter(random_)));
      host.ends = host.begins + Duration(static_cast<std::int64_t>(1e9 * host.bytes / rate));
      host.next_point = 0;
      last = std::max(last, host.ends);
    }
    const TimePoint next = begin + 3 * phase_;
    while (loop_->Now() < std::max(next, last + 2 * kLook)) {
      world_.RunFor(kLook);
      for (Host& host : hosts_) Look(host, errors);
      PlaceNew();
    }
    EndPeriod();
  }

 private:
  // The agent's look at its flow, and its report.
  void Look(Host& host, std::array<std::vector<double>, 3>* errors) {
    const TimePoint now = loop_->Now();
    const Duration length = host.ends - host.begins;
    const double part = std::clamp(SecondsOf(now - host.begins) / SecondsOf(length), 0.0, 1.0);
    const double sent = host.bytes * part;
    const double portion = program_.portion_bytes > 0 ? program_.portion_bytes : host.bytes;
    const double posted =
        part > 0 ? std::min(host.bytes, (std::floor(sent / portion) + 1) * portion) : 0;
    agent::FlowSample& sample = host.sample;
    sample.sent_bytes = static_cast<std::uint64_t>(host.sent_before + sent);
    sample.outstanding_bytes = static_cast<std::uint64_t>(posted - sent);
    sample.remaining_bytes =
        program_.tells_remaining && part > 0 ? static_cast<std::uint64_t>(host.bytes - sent) : 0;
    const bool is_busy = part > 0 && part < 1;
    if (is_busy != (sample.edges.count % 2 == 1)) {
      const TimePoint at = is_busy ? host.begins : host.ends;
      sample.edges = {
          .count = sample.edges.count + 1, .last = at, .between = at - sample.edges.last};
    }
    const auto measures = host.meter.Measure(now, std::span(&sample, 1));
    for (wire::FlowReport& report : host.reporter.ReportChanges(
             now, measures, [](const auto&) { return agent::PortInUse{}; })) {
      report.sequence = ++host.sequence;
      intake_.Handle(host.agent, report);
    }
    if (errors != nullptr && part < 1) Compare(host, part, errors);
  }

  void Compare(Host& host, double part, std::array<std::vector<double>, 3>* errors) {
    constexpr std::array<double, 3> kPoints{0.1, 0.5, 0.9};
    if (host.next_point == kPoints.size() || part < kPoints[host.next_point]) return;
    const auto slot = state_.flows.Find(host.agent, host.sample.id);
    const auto forecast = slot ? predictor_.EndOf(*slot) : std::nullopt;
    const double length = SecondsOf(host.ends - host.begins);
    const double error =  // none counts as if the flow ended now
        forecast ? std::abs(SecondsOf(forecast->expected - host.ends)) / length : 1 - part;
    (*errors)[host.next_point++].push_back(error);
  }

  const Program program_;
  const Duration phase_;
  std::mt19937 random_{1};
  std::vector<Host> hosts_;
};

// Arguments: the program (tells what remains; posts all at once; posts portions; the same at half
// the rate in one phase of five) and the phase's milliseconds.
void BM_ForecastOfEnds(benchmark::State& bench) {
  World world(kPrograms.at(static_cast<std::size_t>(bench.range(0))),
              std::chrono::milliseconds(bench.range(1)));
  for (int period = 0; period < 10; ++period) world.RunPeriod(nullptr);
  std::array<std::vector<double>, 3> errors;
  for ([[maybe_unused]] auto _ : bench) world.RunPeriod(&errors);
  constexpr std::array<const char*, 3> kNames{"at_10_percent", "at_50_percent", "at_90_percent"};
  for (std::size_t i = 0; i < errors.size(); ++i) {
    std::ranges::sort(errors[i]);
    const auto at = [&](double part) {
      if (errors[i].empty()) return -1.0;
      return 100 *
             errors[i][static_cast<std::size_t>(static_cast<double>(errors[i].size() - 1) * part)];
    };
    bench.counters[std::string(kNames[i]) + "_median"] = at(0.5);
    bench.counters[std::string(kNames[i]) + "_p90"] = at(0.9);
  }
}
BENCHMARK(BM_ForecastOfEnds)
    ->ArgsProduct({{0, 1, 2, 3}, {100, 400}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(40);

}  // namespace
}  // namespace espalier::controller

BENCHMARK_MAIN();
