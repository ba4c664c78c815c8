#include "deploy/cli/lists/advise_command.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace espalier::cli {
namespace {

std::string Scheme(std::string_view name, double links, double burst) {
  return fmt::format(
      R"({{"scheme":"{}","link_seconds":{},"burst_seconds":{},"low":{},"high":{},"reason":""}})",
      name, links, burst, burst, burst);
}

std::string Job(std::string_view placing, double measured, double optimum, double known = 1) {
  return fmt::format(
      R"({{"job":"train","placing":"{}","bursts":12,"skipped":3,"flows":8.0,"crossing_flows":8.0,)"
      R"("known_paths":{},"optimum_proven":true,"measured_seconds":{},"standard_error":0.01,)"
      R"("schemes":[{},{},{{"scheme":"ROUND_TRIP_WEIGHTS","link_seconds":null,)"
      R"("burst_seconds":null,"low":null,"high":null,"reason":"why"}}],)"
      R"("gpus":16,"gpu_hours_gained":null,"gpu_hours_to_gain":1.5,"hours":[]}})",
      placing, known, measured, Scheme("PRESENT", measured * 0.9, measured),
      Scheme("OPTIMUM", optimum * 0.9, optimum));
}

std::string Text(std::string_view mode, const std::string& jobs) {
  const std::string answer =
      fmt::format(R"({{"mode":"{}","since":"2026-11-21T18:00:00.000Z","bursts":12,"draws":40,)"
                  R"("jobs":[{}]}})",
                  mode, jobs);
  return AdviceText(*io::ParseJson(answer, "answer"), false);
}

bool HasPart(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(AdviceText, SaysThatNothingWasObservedYet) {
  EXPECT_EQ(Text("OBSERVE", ""),
            "The controller only observes: it steers nothing.\n"
            "Nothing has been observed yet. A burst counts once a job has stopped sending for 50 "
            "ms.\n");
}

TEST(AdviceText, SaysWhatIsMeasuredAndWhatIsInferred) {
  const std::string text = Text("OBSERVE", Job("ECMP", 2, 1));
  EXPECT_TRUE(HasPart(text,
                      "job train, on plain ECMP: 12 bursts of 8 flows, measured 2 s each "
                      "(standard error 0.01 s); 3 more bursts not looked at\n"))
      << text;
  EXPECT_TRUE(HasPart(text, "-50.0 %")) << text;
  EXPECT_TRUE(HasPart(text, "weights by round trips  unknown")) << text;
  EXPECT_TRUE(HasPart(text, "1.5 GPU-hours could be gained (the 16 GPUs")) << text;
  EXPECT_TRUE(HasPart(text, "Only what is called measured was measured.")) << text;
  EXPECT_FALSE(HasPart(text, "not known")) << text;
}

TEST(AdviceText, WarnsOfWhatIsNotKnown) {
  const std::string text = Text("STEER", Job("ECMP", 2, 1, 0.25));
  EXPECT_TRUE(HasPart(text, "The paths of 75 % of the flows on ECMP are not known")) << text;
  EXPECT_FALSE(HasPart(text, "only observes")) << text;
}

TEST(AdviceText, ComparesBeforeAndAfter) {
  const std::string text = Text("STEER", Job("ECMP", 2, 1) + "," + Job("STEERED", 1.25, 1.25));
  EXPECT_TRUE(HasPart(text, "measured 2 s on ECMP, predicted 1 s, measured 1.25 s steered.\n"))
      << text;
  const std::string slower = Text("STEER", Job("ECMP", 2, 1) + "," + Job("STEERED", 2.5, 2.5));
  EXPECT_TRUE(HasPart(slower, "The job is slower than before")) << slower;
}

TEST(AdviceText, BearsAnAnswerWithoutWhatItNeeds) {
  for (const char* answer : {"{}", R"({"jobs":[{}]})", R"({"jobs":[{"schemes":[{}]}]})",
                             R"({"jobs":[1,"x",{"job":"\u001b[2J","placing":"STEERED"}]})"}) {
    const std::string text = AdviceText(*io::ParseJson(answer, "answer"), false);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace espalier::cli
