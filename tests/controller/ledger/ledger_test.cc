// Tests on a whole controller that it steers nothing while it only observes, and what its ledger
// says then.
#include "controller/ledger/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "controller/ledger/ledger_text.h"
#include "controller/state/fabric_health.h"
#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class Observing : public testing::Test {
 protected:
  explicit Observing(bool observes = true)
      : cluster_(kFourLeaves, {.observes = observes,
                               .limit_rates = RateLimits::kOn,
                               .wall_clock = [] { return WallTime(1'000h); }}) {
    cluster_.ConnectAll();
  }
  // A source port that the fabric hashes onto this spine.
  std::uint16_t PortTo(int spine, int from, int to) const {
    std::uint16_t port = 50'000;
    while (cluster_.SpineOf(from, to, port) != spine) ++port;
    return port;
  }
  // An idle flow from host i of the first leaf to host i of the second, on a port that ECMP puts on
  // this spine.
  void Open(int host, int spine, const std::string& job = "train", std::uint8_t max_paths = 1) {
    wire::FlowReport report = Cluster::Opening(cluster_, host,
                                               {{.id = 1,
                                                 .to = host + 4,
                                                 .job = job,
                                                 .port = PortTo(spine, host, host + 4),
                                                 .max_paths = max_paths}});
    report.progress.front().remaining_bytes = 0;
    cluster_.Report(host, report);
    cluster_.Settle();
  }
  // All of these hosts have so many more bytes to send; then they have sent them.
  void Burst(const std::vector<int>& hosts, std::uint64_t bytes, Duration duration) {
    const auto report = [&](std::uint64_t remaining) {
      for (const int host : hosts) {
        wire::FlowReport progress;
        progress.progress = {{.id = wire::LocalFlowId(1), .remaining_bytes = remaining}};
        cluster_.Report(host, progress);
      }
      cluster_.Settle();
    };
    report(bytes);
    cluster_.Advance(duration);
    report(0);
    cluster_.Advance(300ms);
  }
  std::vector<std::string> Reasons() {
    return HealthOf(cluster_.state(), CountReach(cluster_.state()), 0, {}).Reasons();
  }
  // Path sets that were pushed to any agent.
  std::size_t CountPushedSets() {
    std::size_t sets = 0;
    for (int i = 0; i < cluster_.hosts(); ++i) {
      for (const wire::PathPush& push : cluster_.host(i).pushes) sets += push.sets.size();
    }
    return sets;
  }
  const BurstSums* SumsOf(const std::string& job, Placing placing) {
    const BurstSums* found = nullptr;
    for (const auto& [key, sums] : cluster_.controller().ledger().book().entries()) {
      if (key.job == job && key.placing == placing) found = &sums;
    }
    return found;
  }

  Cluster cluster_;
};

class Steering : public Observing {
 protected:
  Steering() : Observing(false) {}
};

TEST_F(Observing, PushesNoPathSetWhateverHappens) {
  for (int i = 0; i < 4; ++i) Open(i, i % 2, "train", i == 3 ? 4 : 1);
  // One that an earlier controller has steered.
  cluster_.Open(5, {{.id = 3, .to = 9, .port = 50'000, .steered = true, .keeps_rate = true}});
  cluster_.Advance(2s);
  for (int i = 0; i < 3; ++i) Burst({0, 1, 2, 3}, 1'000'000, 200ms);
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine0", IntentAction::kFail));
  cluster_.Advance(2s);
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine0", IntentAction::kRestore));
  ASSERT_TRUE(cluster_.Recompute());
  // What operators set has no effect yet, and is kept.
  ASSERT_TRUE(cluster_.ChangeSteering({}, {}, 50, true, {}));
  ASSERT_TRUE(cluster_.ChangeSteering({}, {"train"}, {}, true, {}));
  cluster_.RestartController();
  cluster_.ConnectAll();
  for (int i = 0; i < 4; ++i) Open(i, i % 2);
  cluster_.Advance(5s);
  EXPECT_EQ(CountPushedSets(), 0U);
  for (const FlowSlot slot : cluster_.state().flows.All()) {
    EXPECT_EQ(cluster_.state().flows.At(slot).status, FlowStatus::kUnsteered);
  }
  EXPECT_EQ(Reasons(), std::vector<std::string>{
                           "the controller only observes (mode in its configuration): every flow "
                           "takes plain ECMP"});
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(Observing, EndsWithAReloadAndBeginsWithOne) {
  for (int i = 0; i < 4; ++i) Open(i, 0);
  cluster_.Advance(1s);
  ControllerOptions options = cluster_.controller().settings().configured();
  options.observes = false;
  cluster_.controller().ApplyConfiguration(options, "mode=steer");
  cluster_.Advance(2s);
  EXPECT_EQ(SpinesOfFourFlows(cluster_).size(), 4U);
  EXPECT_TRUE(Reasons().empty());
  options.observes = true;
  cluster_.controller().ApplyConfiguration(options, "mode=observe");
  cluster_.Advance(1s);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(cluster_.host(i).ports.empty());
}

// Four flows on one spine where each could have its own: four times as long.
TEST_F(Observing, SaysWhatSteeringWouldGain) {
  for (int i = 0; i < 4; ++i) Open(i, 2);
  cluster_.Advance(1s);
  const auto bytes = static_cast<std::uint64_t>(cluster_.state().view.unit_bps() / 80);  // 0.1 s
  for (int i = 0; i < 5; ++i) Burst({0, 1, 2, 3}, bytes, 410ms);
  const BurstSums* const sums = SumsOf("train", Placing::kEcmp);
  ASSERT_NE(sums, nullptr);
  EXPECT_GE(sums->bursts, 4U);
  EXPECT_EQ(sums->known, sums->crossing) << "probes have found the paths of their ports";
  EXPECT_NEAR(Estimate(*sums, Scheme::kEcmp).seconds, 0.4, 1e-6);
  EXPECT_DOUBLE_EQ(Estimate(*sums, Scheme::kEcmp).low, Estimate(*sums, Scheme::kEcmp).high);
  EXPECT_NEAR(Estimate(*sums, Scheme::kPresent).seconds, 0.4, 1e-6);
  EXPECT_NEAR(Estimate(*sums, Scheme::kOptimum).seconds, 0.1, 1e-6);
  EXPECT_NEAR(Estimate(*sums, Scheme::kOptimum).burst_seconds, 0.11, 1e-3);
  const double four = Estimate(*sums, Scheme::kEcmp4).seconds;
  EXPECT_GT(four, Estimate(*sums, Scheme::kEcmp16).seconds);
  EXPECT_GT(Estimate(*sums, Scheme::kEcmp16).seconds, 0.1);
  EXPECT_LT(four, 0.4);
}

TEST_F(Observing, RemembersWhatItHasSeenAfterARestart) {
  for (int i = 0; i < 4; ++i) Open(i, 2);
  cluster_.Advance(1s);
  for (int i = 0; i < 3; ++i) Burst({0, 1, 2, 3}, 1'000'000, 200ms);
  ASSERT_NE(SumsOf("train", Placing::kEcmp), nullptr);
  const std::string before = FormatSums(*SumsOf("train", Placing::kEcmp));
  cluster_.RestartController();  // it stores what it has not stored yet
  ASSERT_NE(SumsOf("train", Placing::kEcmp), nullptr);
  EXPECT_EQ(FormatSums(*SumsOf("train", Placing::kEcmp)), before);
  // Of what a minute has not stored, a crash loses the last part only.
  cluster_.ConnectAll();
  for (int i = 0; i < 4; ++i) Open(i, 2);
  cluster_.Advance(1s);
  Burst({0, 1, 2, 3}, 1'000'000, 200ms);
  cluster_.Advance(Ledger::kStoreInterval);
  const std::string after = FormatSums(*SumsOf("train", Placing::kEcmp));
  EXPECT_NE(after, before);
  ASSERT_EQ(cluster_.disk.ledger.size(), 1U) << "one job in one step";
  EXPECT_EQ(cluster_.disk.ledger.begin()->second, after);
}

TEST_F(Observing, LeavesOutWhatItCannotRead) {
  const WallTime step{1'000h};
  cluster_.disk.ledger[{step, "train", "ECMP"}] = "1 0 4 4 4 1 0 0.5 0.25";
  cluster_.disk.ledger[{step, "train", "SPRAYED"}] = "1 0 4 4 4 1 0 0.5 0.25";
  cluster_.disk.ledger[{step, "other", "ECMP"}] = "1 0 4";
  cluster_.RestartController();
  EXPECT_EQ(cluster_.controller().ledger().book().entries().size(), 1U);
  std::vector<std::string> events;
  for (const HistoryEvent& event : cluster_.state().history.Since(0, 1'000)) {
    if (event.kind == "ledger_unreadable") events.push_back(event.text);
  }
  EXPECT_EQ(events, std::vector<std::string>{"parts=2"});
}

TEST_F(Steering, SaysWhatSteeringHasGained) {
  for (int i = 0; i < 4; ++i) Open(i, 2);
  cluster_.Advance(2s);
  ASSERT_EQ(SpinesOfFourFlows(cluster_).size(), 4U);
  const auto bytes = static_cast<std::uint64_t>(cluster_.state().view.unit_bps() / 80);
  for (int i = 0; i < 5; ++i) Burst({0, 1, 2, 3}, bytes, 110ms);
  EXPECT_EQ(SumsOf("train", Placing::kEcmp), nullptr);
  const BurstSums* const sums = SumsOf("train", Placing::kSteered);
  ASSERT_NE(sums, nullptr);
  EXPECT_NEAR(Estimate(*sums, Scheme::kPresent).seconds, 0.1, 1e-6);
  EXPECT_GT(Estimate(*sums, Scheme::kEcmp).seconds, 0.1);
}

// Jobs take turns, and what exceeds the budget is counted.
TEST_F(Observing, LooksAtNoMoreBurstsThanItHasTimeFor) {
  for (int i = 0; i < 4; ++i) Open(i, 1, "job" + std::to_string(i));
  cluster_.Advance(1s);
  for (int i = 0; i < 40; ++i) {
    for (int host = 0; host < 4; ++host) {
      for (const std::uint64_t remaining : {1'000, 0}) {
        wire::FlowReport progress;
        progress.progress = {{.id = wire::LocalFlowId(1), .remaining_bytes = remaining}};
        cluster_.Report(host, progress);
      }
    }
    cluster_.Settle();
    cluster_.Advance(60ms);  // more often than the ledger looks
  }
  cluster_.Advance(1s);
  std::uint64_t looked = 0;
  std::uint64_t skipped = 0;
  for (int i = 0; i < 4; ++i) {
    const BurstSums* const sums = SumsOf("job" + std::to_string(i), Placing::kEcmp);
    ASSERT_NE(sums, nullptr) << i;
    looked += sums->bursts;
    skipped += sums->skipped;
  }
  EXPECT_GT(skipped, 0U);
  EXPECT_LE(looked + skipped, cluster_.controller().ledger().watch().finished());
  EXPECT_GE(looked + skipped + 4, cluster_.controller().ledger().watch().finished());
}

}  // namespace
}  // namespace espalier::controller
