#include "controller/store/legacy_file.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::controller {
namespace {

std::string LegacyErrorOf(std::string_view text) {
  const auto parsed = ParseLegacyIntents(text, "intents.json");
  if (parsed) return "no error";
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  return parsed.error().message;
}

TEST(LegacyFile, GivesTheEpochAndTheReasonsOfEachKind) {
  const auto parsed = ParseLegacyIntents(
      R"({"epoch": 9223372036854775807, "failed_links": {"l1": "optics", "l2": ""},
          "failed_nodes": {"spine0": "fan"}, "drained_links": {"l3": "work"},
          "restored_links": {"l4": "the file is old"}})",
      "intents.json");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  Intents expected;
  expected.failed_links["l1"].reason = "optics";
  expected.failed_links["l2"];
  expected.failed_nodes["spine0"].reason = "fan";
  expected.drained_links["l3"].reason = "work";
  expected.restored_links["l4"].reason = "the file is old";
  EXPECT_EQ(parsed->epoch, 9'223'372'036'854'775'807U);
  EXPECT_EQ(parsed->intents, expected);
}

TEST(LegacyFile, MayLeaveOutEverything) {
  const auto parsed = ParseLegacyIntents("{}", "intents.json");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->epoch, 0U);
  EXPECT_EQ(parsed->intents, Intents{});
}

TEST(LegacyFile, ErrorsNameThePlaceAndWhatIsWrong) {
  for (const char* wrong :
       {"", "[]", "{", R"({"epoch": -1})", R"({"epoch": 9223372036854775808})", R"({"epoch": "1"})",
        R"({"failed_links": []})", R"({"failed_links": {"l1": 1}})",
        R"({"drained_links": {"l1": null}})", R"({"drained_nodes": {}})"}) {
    EXPECT_TRUE(LegacyErrorOf(wrong).starts_with("intents.json:")) << wrong << LegacyErrorOf(wrong);
  }
  EXPECT_NE(LegacyErrorOf("{\n  \"failed_nodes\": {\"s\": 2}}").find("intents.json:2:"),
            std::string::npos);
  EXPECT_NE(LegacyErrorOf(R"({"failed_nodes": {"s": 2}})").find("each reason must be a string"),
            std::string::npos);
}

}  // namespace
}  // namespace espalier::controller
