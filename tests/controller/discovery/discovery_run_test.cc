// The orders that agents get, and what their reports may do.
#include "controller/discovery/discovery_run.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "tests/controller/discovery/probe_world.h"

namespace espalier::discovery {
namespace {

// Agents that answer at once, by a simulated fabric.
class DiscoveryRunFixture : public testing::Test {
 protected:
  DiscoveryRunFixture()
      : world_(fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2}).value(), {}),
        run_({.endpoints = [this] { return world_.Endpoints(); },
              .send =
                  [this](const std::string& host, const wire::ProbeOrder& order) {
                    if (host == gone_) return false;
                    orders_.emplace_back(host, order);
                    return true;
                  },
              .record_event = [this](const std::string& kind,
                                     const std::string&) { events_.push_back(kind); },
              .background =
                  [this](const std::function<void()>& work, std::function<void()> done) {
                    work();
                    done_.push_back(std::move(done));
                  },
              .now = [this] { return now_; },
              .compare = [this](const Found&) { return differences_; }}) {}

  static DiscoveryRun::Request AllNics() {
    return {.covers = [](const IpAddress&) { return true; }};
  }

  wire::ProbeReport Carry(const wire::ProbeOrder& order) {
    wire::ProbeReport report{.order = order.order, .done = true};
    for (const std::uint16_t port : order.source_ports) {
      for (const std::uint8_t ttl : order.ttls) {
        const auto answer = world_.Probe(order.source, order.destination, port, ttl);
        if (answer) report.answers.push_back({port, ttl, *answer, 10});
      }
    }
    return report;
  }

  void Tick() {
    now_ += DiscoveryRun::kTick;
    run_.Tick();
    for (const auto& done : std::exchange(done_, {})) done();
  }
  void Start(bool is_fresh = false) {
    auto request = AllNics();
    request.is_fresh = is_fresh;
    ASSERT_TRUE(run_.Start(request).has_value());
    for (const auto& done : std::exchange(done_, {})) done();
  }
  std::string Difference() const {
    return world_.Difference(run_.found().fabric, run_.found().nics);
  }

  void Step() {
    for (const auto& [host, order] : std::exchange(orders_, {})) {
      run_.HandleReport(host, Carry(order));
    }
    Tick();
  }
  // Carries out all orders, until discovery is complete or `limit` has passed.
  void RunFor(Duration limit) {
    const TimePoint end = now_ + limit;
    while (run_.phase() == DiscoveryRun::Phase::kRunning && now_ < end) Step();
  }
  // The same for the checks of this time.
  void CheckFor(Duration time) {
    const TimePoint end = now_ + time;
    while (now_ < end) Step();
  }

  ProbeWorld world_;
  std::string gone_;
  std::vector<std::pair<std::string, wire::ProbeOrder>> orders_;
  std::vector<std::string> events_;
  std::vector<std::function<void()>> done_;
  TimePoint now_{};
  std::vector<std::string> differences_;  // from the topology in force
  DiscoveryRun run_;
};

TEST_F(DiscoveryRunFixture, HasAgentsDiscoverTheFabric) {
  Start();
  RunFor(std::chrono::minutes(10));
  EXPECT_EQ(run_.phase(), DiscoveryRun::Phase::kComplete);
  EXPECT_EQ(Difference(), "");
  EXPECT_EQ(events_, (std::vector<std::string>{"discovery_started", "discovery_complete"}));
  EXPECT_TRUE(run_.failures().empty());
}

TEST_F(DiscoveryRunFixture, KeepsWhatWasFoundUnlessItIsWantedAfresh) {
  Start();
  RunFor(std::chrono::minutes(10));
  const std::uint64_t probes = run_.found().probes;
  Start();
  RunFor(std::chrono::minutes(10));
  EXPECT_EQ(run_.found().probes, probes);
  Start(/*is_fresh=*/true);
  EXPECT_LT(run_.found().probes, probes);
  RunFor(std::chrono::minutes(10));
  EXPECT_EQ(Difference(), "");
}

TEST_F(DiscoveryRunFixture, RecordsWhatTheHourlyCheckFindsOtherwise) {
  Start();
  RunFor(std::chrono::minutes(10));
  CheckFor(std::chrono::minutes(150));
  EXPECT_EQ(run_.drift(), std::vector<std::string>{}) << "two checks of the same fabric";
  EXPECT_EQ(events_.size(), 2U);
  world_.SetState("leaf0--spine1", fabric::LinkState::kDown);
  CheckFor(std::chrono::minutes(61));
  ASSERT_EQ(run_.drift().size(), 1U);
  EXPECT_EQ(run_.drift()[0],
            "the link leaf-10-0-0-0 (172.16.0.2) to spine-172-16-0-3 (172.16.0.3) is gone");
  EXPECT_EQ(events_.back(), "fabric_drifted");
  EXPECT_EQ(Difference(), "");
  world_.SetState("leaf0--spine1", fabric::LinkState::kUp);
  gone_ = "h1";  // a host that is down is no change of the fabric
  CheckFor(std::chrono::minutes(61));
  ASSERT_EQ(run_.drift().size(), 1U);
  EXPECT_NE(run_.drift()[0].find("is new"), std::string::npos) << run_.drift()[0];
  CheckFor(std::chrono::minutes(61));
  EXPECT_TRUE(run_.drift().empty());
}

TEST_F(DiscoveryRunFixture, RecordsWhereTheFabricDiffersFromTheTopology) {
  differences_ = {"the switch x is not in the topology"};
  Start();
  EXPECT_TRUE(run_.differences().empty());
  RunFor(std::chrono::minutes(10));
  EXPECT_EQ(run_.differences(), differences_);
  EXPECT_EQ(events_, (std::vector<std::string>{"discovery_started", "discovery_complete",
                                               "fabric_differs"}));
  CheckFor(std::chrono::minutes(61));
  EXPECT_EQ(events_.size(), 3U) << "the same differences are no news";
  differences_.clear();
  CheckFor(std::chrono::minutes(61));
  EXPECT_TRUE(run_.differences().empty());
  EXPECT_EQ(events_.size(), 4U);
}

TEST_F(DiscoveryRunFixture, KeepsWhatWasFoundWhenAllAgentsFallSilent) {
  Start();
  RunFor(std::chrono::minutes(10));
  for (int i = 0; i < 60 * 600 * 2; ++i) {
    orders_.clear();
    Tick();
  }
  EXPECT_TRUE(run_.drift().empty());
  EXPECT_EQ(Difference(), "");
}

TEST_F(DiscoveryRunFixture, NeedsTwoNics) {
  auto none = AllNics();
  none.covers = [](const IpAddress&) { return false; };
  const auto refused = run_.Start(none);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(run_.phase(), DiscoveryRun::Phase::kNone);
}

TEST_F(DiscoveryRunFixture, IgnoresReportsOfOtherHostsAndUnknownOrders) {
  Start();
  for (int i = 0; i < 600; ++i) {
    for (const auto& [host, order] : std::exchange(orders_, {})) {
      wire::ProbeReport report = Carry(order);
      run_.HandleReport("somebody", report);
      report.order += 1'000'000;
      run_.HandleReport(host, report);
      report.order = order.order;
      report.done = false;
      for (wire::ProbeAnswer& answer : report.answers) answer.source_port = 1'024;
      run_.HandleReport(host, report);  // ports that were not asked for
    }
    Tick();
  }
  EXPECT_EQ(run_.found().answers, 0U);
}

TEST_F(DiscoveryRunFixture, CompletesWithoutAnAgentThatIsGone) {
  gone_ = "h3";
  Start();
  RunFor(std::chrono::minutes(30));
  EXPECT_EQ(run_.phase(), DiscoveryRun::Phase::kComplete);
  EXPECT_TRUE(run_.failures().contains("h3"));
}

TEST_F(DiscoveryRunFixture, CompletesThoughAgentsNeverReport) {
  Start();
  for (int i = 0; i < 36'000 && run_.phase() == DiscoveryRun::Phase::kRunning; ++i) {
    orders_.clear();
    Tick();
  }
  EXPECT_EQ(run_.phase(), DiscoveryRun::Phase::kComplete);
  EXPECT_FALSE(run_.found().fabric.missing.empty());
}

TEST_F(DiscoveryRunFixture, SendsNoHostMoreProbesASecondThanItsOrdersSay) {
  Start();
  for (const auto& [host, order] : orders_) {
    EXPECT_LE(order.probes_per_second, 5'000U);
    EXPECT_GE(order.probes_per_second, 1U);
    for (const std::uint8_t ttl : order.ttls) EXPECT_LE(ttl, kMostHops);
    EXPECT_EQ(order.destination_port, wire::kRoceV2Port);
  }
}

}  // namespace
}  // namespace espalier::discovery
