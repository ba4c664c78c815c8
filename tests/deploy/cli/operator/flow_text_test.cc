#include "deploy/cli/operator/flow_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace espalier::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string TextOf(const std::string& json) {
  const auto flow = io::ParseJson(json, "flow");
  EXPECT_TRUE(flow.has_value()) << flow.error().message;
  return FlowText(*flow);
}

TEST(FlowText, HasALineForEachFieldThatIsNoList) {
  const std::string text =
      TextOf(R"({"flow": "h0:1", "protocol": 17, "max_rate_bps": 0, "paths": []})");
  EXPECT_EQ(text,
            "flow                 h0:1\n"
            "protocol             UDP\n"
            "max_rate_bps         no limit\n");
}

TEST(ShortFlowText, SaysWhyTheFlowIsWhereItIs) {
  const auto in_short = [](const std::string& json) {
    return ShortFlowText(*io::ParseJson(json, "flow"));
  };
  EXPECT_EQ(
      in_short(R"({"flow": "h0:1", "job": "A", "protocol": 17, "source": "h0",
                         "destination": "h4", "status": "ROUTED", "reason": "PATH_DEAD",
                         "via": "spine0", "source_port": 50001, "busy": true, "parked": false,
                         "planned": true, "achieved_bps": 20000000, "remaining_bytes": 72300000,
                         "attested": {"state": "NOT_SEEN", "samples": 0, "via": []},
                         "cause": "", "remedy": "", "paths": []})"),
      "h0:1 of job A (UDP, h0 to h4) is ROUTED over spine0 with source port 50001: as the path "
      "before died.\n"
      "It sends 20.0 Mbit/s (over the last 100 ms); 72.3 MB remain.\n"
      "Its path is the one that is planned for the repeating phases of its job.\n");
  EXPECT_EQ(in_short(R"({"flow": "h0:1", "job": "A", "protocol": 6, "source": "h0",
                         "destination": "h4", "status": "LEARNING", "via": "", "busy": false,
                         "attested": {"state": "ELSEWHERE", "samples": 7, "via": ["a", "b"]},
                         "cause": "no switch answers", "remedy": "let them answer"})"),
            "h0:1 of job A (TCP, h0 to h4) is LEARNING.\n"
            "Cause: no switch answers.\n"
            "Remedy: let them answer.\n"
            "It has nothing to send at the moment.\n"
            "Switches say ELSEWHERE (7 packets sampled on a, b).\n");
}

TEST(FlowText, SaysWhereSwitchesSawTheFlow) {
  EXPECT_EQ(TextOf(R"({"attested": {"state": "NOT_SEEN", "samples": 0, "via": []}})"),
            "attested             NOT_SEEN\n");
  EXPECT_EQ(TextOf(R"({"attested": {"state": "ELSEWHERE", "samples": 7,
                                     "via": ["leaf0--spine1>spine1", "leaf1--spine1>leaf1"]}})"),
            "attested             ELSEWHERE (7 packets sampled on leaf0--spine1>spine1, "
            "leaf1--spine1>leaf1)\n");
}

TEST(FlowText, TellsUnequalPartsOnly) {
  const std::string paths = R"({"paths": [{"via": "spine0", "share": 0.25},)";
  EXPECT_EQ(TextOf(paths + R"({"via": "spine1", "share": 0.75}]})"),
            "It sends unequal parts: 25.0 % over spine0, 75.0 % over spine1.\n");
  EXPECT_EQ(TextOf(paths + R"({"via": "spine1", "share": 0.25}]})"), "");
  EXPECT_EQ(TextOf(paths + R"({"via": "spine1"}]})"), "") << "of an older controller";
}

TEST(FlowText, SaysWhatADeadPathMeans) {
  const std::string flow =
      R"({"protocol": 17, "other_end": "UNKNOWN", "transport_timeout_seconds": )";
  const std::string slow = TextOf(flow + "4.3}");
  EXPECT_THAT(slow, HasSubstr("No agent reports the queue pair at its other end."));
  EXPECT_THAT(slow, HasSubstr("waits 4.3 s"));
  EXPECT_THAT(TextOf(flow + "0.5}"), Not(HasSubstr("waits 0.5 s")));
  const std::string standby =
      TextOf(R"({"paths": [{"via": "spine0", "standby_via": "spine1", "standby_port": 50001}]})");
  EXPECT_THAT(standby,
              HasSubstr("If its path over spine0 dies, its host sends over spine1 at once"));
}

std::string ReturnsOf(const std::string& back, const std::string& state, bool better) {
  const std::string json =
      R"({"returns": [{"via": "spine0", "source_port": 50033, "return_via": ")" + back +
      R"(", "return_state": ")" + state + R"(", "better_port_known": )" +
      (better ? "true" : "false") + "}]}";
  const auto explanation = io::ParseJson(json, "explanation");
  EXPECT_TRUE(explanation.has_value()) << explanation.error().message;
  return ReturnText(*explanation);
}

TEST(ReturnText, SaysWhichWayAcknowledgementsComeBack) {
  EXPECT_EQ(ReturnsOf("spine1", "UP", false),
            "The acknowledgements of its path over spine0 (port 50033) come back over spine1.\n");
  EXPECT_EQ(ReturnText(*io::ParseJson(R"({"flow": {}})", "of UDP")), "");
  EXPECT_EQ(ReturnText(*io::ParseJson(R"({"returns": []})", "of a host's own leaf")), "");
}

TEST(ReturnText, SaysThatNoPortIsBetterAndWhatToDo) {
  const std::string down = ReturnsOf("spine1", "DOWN", false);
  EXPECT_THAT(down, HasSubstr("come back over spine1, where a link is down"));
  EXPECT_THAT(down, HasSubstr("no port of\nthis path is known to be better. Repair the link"));
  EXPECT_THAT(ReturnsOf("", "DOWN", false),
              HasSubstr("come to a switch whose links back are all down, and no port of"));
  const std::string drained = ReturnsOf("spine1", "DRAINED", false);
  EXPECT_THAT(drained, HasSubstr("where a link is drained, and no port of"));
  EXPECT_THAT(drained, HasSubstr("Before the link is taken out of the fabric"));
  for (const char* const state : {"DOWN", "DRAINED"}) {
    const std::string better = ReturnsOf("spine1", state, true);
    EXPECT_THAT(better, HasSubstr("A port with a better return path is known: the flow takes it"));
    EXPECT_THAT(better, Not(HasSubstr("another port")));
  }
}

TEST(ReturnText, SaysHowReturnPathsBecomeKnown) {
  const std::string unknown = ReturnsOf("", "UNKNOWN", false);
  EXPECT_THAT(unknown, HasSubstr("come back over a path that is not known."));
  EXPECT_THAT(unknown, HasSubstr("Name the hashes of the switches in the\ntopology file (ecmp)"));
}

}  // namespace
}  // namespace espalier::cli
