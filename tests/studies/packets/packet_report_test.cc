#include "tests/studies/packets/packet_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/studies/packets/two_leaves.h"

namespace espalier::offline {
namespace {

constexpr std::int64_t kFlowBytes = 1'000'000;

class ReportOfPackets : public testing::Test {
 protected:
  // From h0 to h2 or h1 to h3, in equal parts over these spines.
  TableFlow Flow(int host, const std::vector<std::string>& spines) const {
    const std::string from = "h" + std::to_string(host);
    const std::string to = "h" + std::to_string(host + 2);
    TableFlow flow{
        .id = from, .source = *topology_.FindNode(from), .destination = *topology_.FindNode(to)};
    for (const std::string& spine : spines) {
      flow.parts.push_back({.bytes = kFlowBytes / static_cast<std::int64_t>(spines.size()),
                            .links = LinksThrough(topology_, {from, "leaf0", spine, "leaf1", to})});
    }
    return flow;
  }
  PacketReport Report(const std::vector<TableFlow>& flows) const {
    auto report = ReplayFlows(topology_, flows, {});
    EXPECT_TRUE(report.has_value()) << report.error().message;
    return report.value_or(PacketReport());
  }

  fabric::Topology topology_ = TwoLeaves();
};

TEST_F(ReportOfPackets, AFlowAloneTakesOnce) {
  const PacketReport report = Report({Flow(0, {"spine0"})});
  EXPECT_EQ(report.flows, 1U);
  EXPECT_EQ(report.parts, 1U);
  EXPECT_DOUBLE_EQ(report.slowest, 1);
  EXPECT_DOUBLE_EQ(report.median, 1);
  EXPECT_DOUBLE_EQ(report.last_seconds, report.packets.seconds[0]);
}

TEST_F(ReportOfPackets, AHalfRateLinkTakesTwiceTheTimeOfAFlowAlone) {
  topology_ = TwoLeaves(50);
  EXPECT_NEAR(Report({Flow(0, {"spine1"})}).slowest, 2, 0.3);
  EXPECT_NEAR(Report({Flow(0, {"spine0"})}).slowest, 1, 0.01);
}

TEST_F(ReportOfPackets, AFlowEndsWithItsLastPart) {
  topology_ = TwoLeaves(25);
  // Half of it at a quarter of the rate.
  const PacketReport report = Report({Flow(0, {"spine0", "spine1"}), Flow(1, {"spine0"})});
  EXPECT_EQ(report.flows, 2U);
  EXPECT_EQ(report.parts, 3U);
  EXPECT_NEAR(report.slowest, 2, 0.3);
  EXPECT_LT(report.median, report.slowest);
}

TEST_F(ReportOfPackets, RefusesNothingAndTooManyKinds) {
  TableFlow empty = Flow(0, {"spine0"});
  empty.parts[0].bytes = 0;
  const auto nothing = ReplayFlows(topology_, std::vector{empty}, {});
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().code, ErrorCode::kInvalidArgument);
  std::vector<TableFlow> many;
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(kMostAlone); ++i) {
    many.push_back(Flow(0, {"spine0"}));
    many.back().parts[0].bytes = 1 + i;
  }
  const auto kinds = ReplayFlows(topology_, many, {});
  ASSERT_FALSE(kinds.has_value());
  EXPECT_EQ(kinds.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(Report({empty, Flow(1, {"spine0"})}).flows, 1U);
}

TEST_F(ReportOfPackets, JsonHasEveryField) {
  const std::string json = FormatPacketReport({.flows = 1, .parts = 2, .slowest = 1.5});
  for (const char* field : {"\"flows\":1", "\"parts\":2", "\"slowest\":1.5", "\"p99\"",
                            "\"median\"", "\"last_seconds\"", "\"longest_queue_bytes\"",
                            "\"marked_packets\"", "\"dropped_packets\"", "\"events\""}) {
    EXPECT_THAT(json, testing::HasSubstr(field));
  }
}

}  // namespace
}  // namespace espalier::offline
