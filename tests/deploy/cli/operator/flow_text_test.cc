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

}  // namespace
}  // namespace espalier::cli
