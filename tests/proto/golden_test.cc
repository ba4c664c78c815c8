#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "proto/decode.h"
#include "proto/encode.h"
#include "tests/proto/examples.h"

// Tests the bytes of one message of each kind in golden/: each later release must read the bytes of
// an earlier one, and unintended changes show here.
namespace espalier::wire {
namespace {

constexpr const char* kNames[] = {"hello",       "welcome",     "heartbeat",   "flow_report",
                                  "path_push",   "ack",         "probe_order", "probe_report",
                                  "path_health", "link_event",  "rank_plan",   "collective_report",
                                  "train_order", "train_report"};
static_assert(std::size(kNames) == std::variant_size_v<Body>);

// Hexadecimal text, 32 bytes a line.
std::string ToHex(std::string_view bytes) {
  std::string hex;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
    if (i % 32 == 31 || i + 1 == bytes.size()) hex += '\n';
  }
  return hex;
}

std::string FromHex(std::string_view hex) {
  std::string digits;
  for (const char c : hex) {
    if (c != '\n') digits += c;
  }
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string ReadGolden(const std::string& name) {
  std::ifstream file(std::filesystem::path(ESPALIER_GOLDEN_DIR) / (name + ".hex"));
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Golden, BytesStayTheSame) {
  const std::vector<Message> examples = MakeExamples();
  ASSERT_EQ(examples.size(), std::size(kNames));
  for (std::size_t kind = 0; kind < examples.size(); ++kind) {
    ASSERT_EQ(examples[kind].body.index(), kind);
    EXPECT_EQ(ReadGolden(kNames[kind]), ToHex(Encode(examples[kind]))) << kNames[kind];
  }
}

TEST(Golden, OldBytesAreRead) {
  const std::vector<Message> examples = MakeExamples();
  Decoder decoder;
  for (std::size_t kind = 0; kind < examples.size(); ++kind) {
    const auto decoded = decoder.Decode(FromHex(ReadGolden(kNames[kind])));
    ASSERT_TRUE(decoded.has_value()) << kNames[kind] << ": " << decoded.error().message;
    EXPECT_TRUE(**decoded == examples[kind]) << kNames[kind];
  }
}

void ForgetNics(RankPlan& plan) {
  plan.peers[0].connections.clear();
  plan.listen_addresses.clear();
}

// The first minor version wrote messages without fields that were added later.
TEST(Golden, BytesOfTheFirstVersionAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("rank_plan_1_0")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  RankPlan expected = std::get<RankPlan>(MakeExamples()[10].body);
  expected.peers[0].destination_port = 0;
  expected.peers[0].channels = {0, 0};
  expected.ranks = 0;
  expected.version = 0;
  expected.address = {};
  expected.listen_port = 0;
  expected.offload = false;
  expected.job_key.clear();
  expected.rank_addresses.clear();
  expected.user.clear();
  ForgetNics(expected);
  EXPECT_TRUE(std::get<RankPlan>((*decoded)->body) == expected);
}

TEST(Golden, RankPlansWithoutAJobKeyAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("rank_plan_without_key")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  RankPlan expected = std::get<RankPlan>(MakeExamples()[10].body);
  expected.job_key.clear();
  expected.rank_addresses.clear();
  expected.user.clear();
  ForgetNics(expected);
  EXPECT_TRUE(std::get<RankPlan>((*decoded)->body) == expected);
}

TEST(Golden, RankPlansWithoutAUserAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("rank_plan_without_user")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  RankPlan expected = std::get<RankPlan>(MakeExamples()[10].body);
  expected.user.clear();
  ForgetNics(expected);
  EXPECT_TRUE(std::get<RankPlan>((*decoded)->body) == expected);
}

TEST(Golden, RankPlansWithoutNicsOfConnectionsAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("rank_plan_without_nics")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  RankPlan expected = std::get<RankPlan>(MakeExamples()[10].body);
  ForgetNics(expected);
  EXPECT_TRUE(std::get<RankPlan>((*decoded)->body) == expected);
}

TEST(Golden, PathPushesThatDoNotKnowOfUnsteeredFlowsAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("path_push_without_unsteered")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  PathPush expected = std::get<PathPush>(MakeExamples()[4].body);
  expected.unsteered.clear();
  expected.sets[0].paths[0].links.clear();
  EXPECT_TRUE(std::get<PathPush>((*decoded)->body) == expected);
}

TEST(Golden, PathPushesThatDoNotTellLinksAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("path_push_without_links")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  PathPush expected = std::get<PathPush>(MakeExamples()[4].body);
  expected.sets[0].paths[0].links.clear();
  EXPECT_TRUE(std::get<PathPush>((*decoded)->body) == expected);
}

TEST(Golden, TrainOrdersThatDoNotSayWherePacketsComeFromAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("train_order_without_sources")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  TrainOrder expected = std::get<TrainOrder>(MakeExamples()[12].body);
  expected.expected[0] = {.number = expected.expected[0].number,
                          .until_us = expected.expected[0].until_us};
  EXPECT_TRUE(std::get<TrainOrder>((*decoded)->body) == expected);
}

void WithoutEdges(FlowReport& report) {
  for (FlowProgress& flow : report.progress) {
    flow.edges = 0;
    flow.edge_age_us = 0;
    flow.duty_permille = 0;
  }
}

TEST(Golden, FlowReportsThatDoNotSayWhenTheyWereSentAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("flow_report_without_sent")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  FlowReport expected = std::get<FlowReport>(MakeExamples()[3].body);
  expected.sent_us = 0;
  EXPECT_TRUE(std::get<FlowReport>((*decoded)->body) == expected);
}

TEST(Golden, FlowReportsOfTheFirstVersionAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("flow_report_1_0")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  FlowReport expected = std::get<FlowReport>(MakeExamples()[3].body);
  expected.opened[0].path_ports.clear();
  expected.progress[0].sent_bytes = 0;
  expected.sent_us = 0;
  WithoutEdges(expected);
  EXPECT_TRUE(std::get<FlowReport>((*decoded)->body) == expected);
}

TEST(Golden, FlowReportsWithoutEdgesAreRead) {
  Decoder decoder;
  const auto decoded = decoder.Decode(FromHex(ReadGolden("flow_report_without_edges")));
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  FlowReport expected = std::get<FlowReport>(MakeExamples()[3].body);
  expected.sent_us = 0;
  WithoutEdges(expected);
  EXPECT_TRUE(std::get<FlowReport>((*decoded)->body) == expected);
}

TEST(Golden, WelcomesAndHeartbeatsOfTheFirstVersionAreRead) {
  Decoder decoder;
  const auto welcome = decoder.Decode(FromHex(ReadGolden("welcome_1_0")));
  ASSERT_TRUE(welcome.has_value()) << welcome.error().message;
  Welcome expected = std::get<Welcome>(MakeExamples()[1].body);
  expected.report_interval_us = expected.max_messages_per_second = 0;
  expected.max_bytes_per_second = expected.max_entries_per_second = 0;
  EXPECT_TRUE(std::get<Welcome>((*welcome)->body) == expected);
  const auto heartbeat = decoder.Decode(FromHex(ReadGolden("heartbeat_1_0")));
  ASSERT_TRUE(heartbeat.has_value()) << heartbeat.error().message;
  EXPECT_EQ(std::get<Heartbeat>((*heartbeat)->body).report_interval_us, 0U);
}

}  // namespace
}  // namespace espalier::wire
