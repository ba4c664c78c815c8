#include "controller/api/views/flow_view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class FlowViewTest : public OperatorApiFixture {
 protected:
  FlowSlot SlotOf(int host, std::uint64_t id) {
    const auto agent = cluster_.state().agents.FindByName("h" + std::to_string(host));
    return *cluster_.state().flows.Find(*agent, wire::LocalFlowId(id));
  }
  void Progress(wire::FlowProgress progress) {
    wire::FlowReport report;
    progress.id = wire::LocalFlowId(5);
    report.progress = {progress};
    cluster_.Report(0, report);
    cluster_.Settle();
  }
  io::JsonValue Whole(FlowSlot slot) {
    io::JsonWriter json;
    WriteFlow(json, cluster_.state(), Show(cluster_.state(), slot), {},
              cluster_.controller().Now());
    return Json({.status = 200, .body = json.Text()});
  }
};

// A coarse rate is at most an eighth less, and rates that differ by more than that stay different.
TEST_F(FlowViewTest, ACoarseRateIsItsFourLeadingBinaryDigits) {
  for (std::uint64_t rate = 0; rate < 16; ++rate) EXPECT_EQ(CoarseRate(rate), rate);
  EXPECT_EQ(CoarseRate(16), 16U);
  EXPECT_EQ(CoarseRate(17), 16U);
  EXPECT_EQ(CoarseRate(18), 18U);
  EXPECT_EQ(CoarseRate(31), 30U);
  EXPECT_EQ(CoarseRate(std::numeric_limits<std::uint64_t>::max()), std::uint64_t{15} << 60);
  for (std::uint64_t rate = 1; rate < std::uint64_t{1} << 60; rate += rate / 13 + 1) {
    const std::uint64_t coarse = CoarseRate(rate);
    EXPECT_LE(coarse, rate);
    EXPECT_LE(rate - coarse, rate / 8) << rate;
    EXPECT_EQ(CoarseRate(coarse), coarse) << rate;
  }
}

TEST_F(FlowViewTest, EveryReasonAndActivityHasANameOfItsOwn) {
  std::set<std::string_view> names;
  using wire::PathReason;
  for (const PathReason reason :
       {PathReason::kAssigned, PathReason::kPredicted, PathReason::kPathDead,
        PathReason::kRecomputed, PathReason::kRemapped}) {
    names.insert(ReasonName(reason));
  }
  EXPECT_EQ(names.size(), 5U);
  for (const auto state :
       {wire::FlowState::kActive, wire::FlowState::kIdle, wire::FlowState::kStalled}) {
    names.insert(ActivityName(state));
  }
  EXPECT_EQ(names.size(), 8U);
  EXPECT_FALSE(names.contains("?"));
}

TEST_F(FlowViewTest, ANicIsNamedAndAnUnknownAddressIsItself) {
  EXPECT_EQ(NicName(cluster_.state(), cluster_.Address(3)), "h3");
  const IpAddress unknown = *IpAddress::Parse("192.0.2.77");
  EXPECT_EQ(NicName(cluster_.state(), unknown), "192.0.2.77");
}

TEST_F(FlowViewTest, WritesAllFieldsOfAFlow) {
  Progress({.remaining_bytes = 700, .achieved_bps = 9'000'000'000});
  cluster_.Advance(std::chrono::seconds(3));
  const auto flow = Whole(SlotOf(0, 5));
  EXPECT_EQ(flow.Find("flow")->text, "h0:5");
  EXPECT_EQ(flow.Find("job")->text, "A");
  EXPECT_EQ(flow.Find("source")->text, "h0");
  EXPECT_EQ(flow.Find("destination")->text, "h2");
  EXPECT_EQ(flow.Find("destination_address")->text, cluster_.Address(2).ToString());
  EXPECT_EQ(flow.Find("source_port")->text, std::to_string(cluster_.host(0).ports.at(5)));
  EXPECT_EQ(flow.Find("remaining_bytes")->text, "700");
  EXPECT_EQ(flow.Find("achieved_bps")->text, "9000000000");
  EXPECT_NEAR(std::stod(flow.Find("age_seconds")->text), 3, 0.5);
  ASSERT_EQ(flow.Find("paths")->items.size(), 1U);
  EXPECT_EQ(flow.Find("paths")->items[0].Find("via")->text, flow.Find("via")->text);
  EXPECT_FALSE(flow.Find("paths")->items[0].Find("learning")->boolean);
}

TEST_F(FlowViewTest, IsAcknowledgedOnceItsAgentSaysSo) {
  EXPECT_TRUE(Show(cluster_.state(), SlotOf(0, 5)).is_acknowledged);
  cluster_.host(0).acknowledges = false;
  cluster_.Open(0, {{.id = 8, .to = 3, .job = "A"}});
  cluster_.Settle();
  EXPECT_FALSE(Show(cluster_.state(), SlotOf(0, 8)).is_acknowledged);
  EXPECT_FALSE(Whole(SlotOf(0, 8)).Find("acknowledged")->boolean);
}

// The feed compares digests instead of texts.
TEST_F(FlowViewTest, TheDigestDiffersWithTheTextExceptForTheRate) {
  const FlowSlot slot = SlotOf(0, 5);
  using Seen = Attestation::State;
  Seen seen = Seen::kNotSeen;
  std::string text;
  std::uint64_t digest = 0;
  const auto look = [&] {
    text = LiveFlow(cluster_.state(), Show(cluster_.state(), slot), seen);
    digest = LiveFlowDigest(Show(cluster_.state(), slot), seen);
  };
  const auto expect = [&](bool same_text, bool same_digest) {
    EXPECT_EQ(LiveFlow(cluster_.state(), Show(cluster_.state(), slot), seen) == text, same_text);
    EXPECT_EQ(LiveFlowDigest(Show(cluster_.state(), slot), seen) == digest, same_digest);
    look();
  };
  look();
  expect(true, true);
  Progress({.achieved_bps = 50'000'000'000});
  expect(false, true);  // the rate
  Progress({.achieved_bps = 50'100'000'000});
  expect(true, true);  // nearly the same
  Progress({.achieved_bps = 50'100'000'000, .state = wire::FlowState::kIdle});
  expect(false, false);
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}});
  expect(false, false);  // another path, for another reason
  seen = Seen::kAsDecided;
  expect(false, false);
  seen = Seen::kElsewhere;
  expect(false, false);
  EXPECT_NE(LiveFlowDigest(Show(cluster_.state(), SlotOf(1, 6)), seen), digest);
}

}  // namespace
}  // namespace espalier::controller
