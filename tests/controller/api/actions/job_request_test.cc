#include "controller/api/actions/job_request.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::controller {
namespace {

std::string ErrorIn(const std::string& body) {
  const auto parsed = ParseJobRequest(body);
  if (parsed) return "no error";
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  return parsed.error().message;
}

TEST(JobRequest, ARequestMayLeaveOutAllButNameAndRanks) {
  const auto least = ParseJobRequest(R"({"name": "train", "ranks": ["h2", "h0"]})");
  ASSERT_TRUE(least.has_value()) << least.error().message;
  EXPECT_EQ(*least, (JobSpec{.name = "train", .ranks = {"h2", "h0"}, .user = ""}));
  const auto all = ParseJobRequest(
      R"({"name": "train", "ranks": ["h0", "h2"], "collective": "reduce-scatter",
          "bytes": 9223372036854775807, "offload": true, "transport": "verbs", "user": "al-1"})");
  ASSERT_TRUE(all.has_value()) << all.error().message;
  EXPECT_EQ(*all, (JobSpec{.name = "train",
                           .ranks = {"h0", "h2"},
                           .collective = forest::Collective::kReduceScatter,
                           .bytes = 9'223'372'036'854'775'807U,
                           .offload = true,
                           .verbs = true,
                           .user = "al-1"}));
}

TEST(JobRequest, ErrorsSayWhichPartOfARequestIsWrong) {
  struct Case {
    const char* part;
    const char* rest;
  };
  for (const Case& each :
       {Case{"collective", R"("collective": "gossip")"}, Case{"bytes", R"("bytes": -1)"},
        Case{"offload", R"("offload": 1)"}, Case{"transport", R"("transport": "pigeon")"},
        Case{"user", R"("user": "Al ice")"}, Case{"colour", R"("colour": "red")"}}) {
    const std::string message =
        ErrorIn(std::string(R"({"name": "train", "ranks": ["h0", "h2"], )") + each.rest + "}");
    EXPECT_NE(message.find(each.part), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with("the request:")) << message;
  }
  EXPECT_NE(ErrorIn(R"({"ranks": ["h0", "h2"]})").find("name"), std::string::npos);
  EXPECT_NE(ErrorIn(R"({"name": "train"})").find("ranks"), std::string::npos);
  EXPECT_NE(ErrorIn(R"({"name": "train", "ranks": ["h0", 7]})").find("each rank must be a string"),
            std::string::npos);
  EXPECT_NE(ErrorIn("now"), "no error");
}

}  // namespace
}  // namespace espalier::controller
