// Phases hold while reports are late, by random times, and in random order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <vector>

#include "common/base/log.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

struct Lateness {
  Duration usual{};    // of reports, at most
  Duration longest{};  // of one in eight
  Duration stall{};    // twice a second, no report is handled for so long
  bool with_clocks = true;
};

// 32 hosts with eight flows each that stay open, of one job with four phases: each flow is busy for
// 25 ms in each 200 ms, as in burst_load_bench.
class LateReports {
 public:
  static constexpr int kHosts = 32;
  static constexpr int kFlows = 8;
  static constexpr int kPhases = 4;
  static constexpr Duration kPhase = 50ms;

  LateReports(const Lateness& lateness, std::uint32_t seed)
      : lateness_(lateness),
        random_(seed),
        cluster_(fabric::LeafSpineOptions{.spines = 4, .leaves = 4, .hosts_per_leaf = 8}) {
    SetLogLevel(LogLevel::kError);
    cluster_.ConnectAll();
    for (int host = 0; host < kHosts; ++host) {
      clocks_[host] = std::chrono::microseconds(random_() % 1'000'000'000);
      std::vector<Cluster::NewFlow> flows;
      for (int flow = 0; flow < kFlows; ++flow) {
        flows.push_back({.id = static_cast<std::uint64_t>(flow) + 1,
                         .to = (host + (1 + flow / 3) * 8) % kHosts});
      }
      wire::FlowReport report = Cluster::Opening(cluster_, host, flows);
      report.progress.clear();
      for (int flow = 0; flow < kFlows; ++flow) report.progress.push_back(Row(flow, 2, 1ms));
      edges_[host].assign(kFlows, 2);
      cluster_.Report(host, report);
    }
    cluster_.Settle();
    cluster_.Advance(1s);
    start_ = cluster_.controller().Now();
  }

  void Run(int periods) {
    for (int step = 0; step < kPhases * periods; ++step) {
      for (int host = 0; host < kHosts; ++host) SchedulePhase(host, next_step_);
      ++next_step_;
      Deliver(start_ + next_step_ * kPhase);
    }
  }
  bool AreAllPlanned() const {
    return cluster_.MetricsText().find(fmt::format("\nespalier_phase_plan_flows {}\n",
                                                   kHosts * kFlows)) != std::string::npos;
  }
  std::size_t Pushes() {
    std::size_t pushes = 0;
    for (int host = 0; host < kHosts; ++host) pushes += cluster_.host(host).pushes.size();
    return pushes;
  }
  Cluster& cluster() { return cluster_; }

 private:
  struct Arrival {
    TimePoint due;
    std::uint64_t order;
    int host;
    wire::FlowReport report;
    bool operator>(const Arrival& other) const {
      return std::pair(due, order) > std::pair(other.due, other.order);
    }
  };

  static wire::FlowProgress Row(int flow, std::uint32_t edges, Duration age) {
    const bool busy = edges % 2 == 1;
    return {.id = wire::LocalFlowId(static_cast<std::uint64_t>(flow) + 1),
            .outstanding_bytes = busy ? 1'000'000U : 0U,
            .state = busy ? wire::FlowState::kActive : wire::FlowState::kIdle,
            .edges = edges,
            .edge_age_us = static_cast<std::uint64_t>(age / 1us)};
  }
  Duration Random(Duration below) {
    return below > 0us
               ? std::chrono::microseconds(random_() % static_cast<std::uint32_t>(below / 1us))
               : Duration{};
  }
  void SchedulePhase(int host, int step) {
    const TimePoint begin = start_ + step * kPhase + Random(6ms);
    Send(host, step % kPhases, begin, begin + 1ms + Random(2ms));
    // An idle edge is known after 10 ms, and waits for up to 40 ms.
    Send(host, step % kPhases, begin + 25ms, begin + 36ms + Random(28ms));
  }
  void Send(int host, int phase, TimePoint at, TimePoint sent) {
    wire::FlowReport report;
    for (int flow = phase; flow < kFlows; flow += kPhases) {
      report.progress.push_back(
          Row(flow, ++edges_[host][static_cast<std::size_t>(flow)], sent - at));
    }
    if (lateness_.with_clocks) {
      report.sent_us = static_cast<std::uint64_t>((sent - TimePoint{} + clocks_[host]) / 1us);
    }
    TimePoint due = sent + Random(random_() % 8 == 0 ? lateness_.longest : lateness_.usual);
    if (lateness_.stall > 0us) {
      const Duration into = (due - start_) % 500ms;
      if (into < lateness_.stall) due += lateness_.stall - into;
    }
    // A host's reports come in order.
    TimePoint& earliest = earliest_[host];
    earliest = std::max(earliest, due);
    arrivals_.push({earliest, ++order_, host, std::move(report)});
  }
  void Deliver(TimePoint until) {
    while (!arrivals_.empty() && arrivals_.top().due <= until) {
      const Arrival arrival = arrivals_.top();
      arrivals_.pop();
      AdvanceTo(arrival.due);
      cluster_.Report(arrival.host, arrival.report);
      cluster_.Settle();
    }
    AdvanceTo(until);
  }
  void AdvanceTo(TimePoint time) {
    const TimePoint now = cluster_.controller().Now();
    if (time > now) cluster_.Advance(time - now);
  }

  const Lateness lateness_;
  std::mt19937 random_;
  Cluster cluster_;
  TimePoint start_;
  int next_step_ = 0;
  std::uint64_t order_ = 0;
  std::map<int, Duration> clocks_;  // ahead of the controller's
  std::map<int, std::vector<std::uint32_t>> edges_;
  std::map<int, TimePoint> earliest_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
};

constexpr int kPeriodsOfASecond = 5;

// From the twentieth second on, all flows are planned at each look, and nothing moves.
void ExpectPhasesHold(const Lateness& lateness, std::uint32_t seed) {
  LateReports hosts(lateness, seed);
  hosts.Run(20 * kPeriodsOfASecond);
  const std::size_t pushes = hosts.Pushes();
  const std::int64_t plans = hosts.cluster().CounterValue("espalier_phase_plans_computed_total");
  for (int second = 0; second < 10; ++second) {
    hosts.Run(kPeriodsOfASecond);
    EXPECT_TRUE(hosts.AreAllPlanned()) << second;
  }
  EXPECT_EQ(hosts.Pushes(), pushes);
  EXPECT_EQ(hosts.cluster().CounterValue("espalier_phase_plans_computed_total"), plans);
  const auto jobs = hosts.cluster().controller().predictor().Jobs();
  ASSERT_EQ(jobs.size(), 1U);
  ASSERT_TRUE(jobs[0].period);
  EXPECT_NEAR(SecondsOf(*jobs[0].period), 0.2, 0.01);
  EXPECT_LE(jobs[0].start_error_p90, 0.05);
  EXPECT_LE(jobs[0].end_error_p90, 0.05);
}

TEST(LateReports, PhasesHoldWhileNoReportIsLate) {
  ExpectPhasesHold({.usual = 2ms, .longest = 2ms}, 1);
}

TEST(LateReports, PhasesHoldWhileReportsComeInAnyOrder) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ExpectPhasesHold({.usual = 15ms, .longest = 400ms}, seed);
  }
}

TEST(LateReports, PhasesHoldWhileTheControllerStandsStillAgainAndAgain) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ExpectPhasesHold({.usual = 5ms, .longest = 60ms, .stall = 300ms}, seed);
  }
}

// Without the agents' clocks nobody knows that reports were late, and edges seem to lie elsewhere.
TEST(LateReports, ErrorsShowThatReportsOfOlderAgentsAreLate) {
  LateReports hosts({.usual = 5ms, .longest = 60ms, .stall = 300ms, .with_clocks = false}, 1);
  hosts.Run(20 * kPeriodsOfASecond);
  const auto jobs = hosts.cluster().controller().predictor().Jobs();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_GT(jobs[0].start_error_p90, 0.1);
}

}  // namespace
}  // namespace espalier::controller
