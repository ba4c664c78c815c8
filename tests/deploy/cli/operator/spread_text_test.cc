#include "deploy/cli/operator/spread_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace espalier::cli {
namespace {

// `fields`: further ones, such as R"(,"optimal":true)".
std::string Spread(std::string_view most, std::string_view bound, std::string_view theorem,
                   std::string_view fields) {
  const std::string text =
      fmt::format(R"({{"max_load":"{}","lower_bound":"{}","theorem":"{}","flows_compared":6{}}})",
                  most, bound, theorem, fields);
  return DescribeSpread(*io::ParseJson(text, "answer"));
}
constexpr std::string_view kPhases = R"(,"load_of":"BUSIEST_PHASES")";
constexpr std::string_view kOptimal = R"(,"load_of":"OPEN_FLOWS","optimal":true)";

TEST(SpreadText, SaysThatNoAssignmentIsBetterAndOfWhichFlows) {
  EXPECT_EQ(Spread("2", "2", "", kOptimal),
            "The busiest link of the fabric carries 2 when all open flows send at once. No "
            "assignment of these 6 flows has less.\n");
  EXPECT_EQ(Spread("3/2", "3/2", "a two-tier Clos with equal links", kOptimal),
            "The busiest link of the fabric carries 3/2 when all open flows send at once. No "
            "assignment of these 6 flows has less (a two-tier Clos with equal links).\n");
}

TEST(SpreadText, GivesNoVerdictWhereFlowsAreLeftOut) {
  EXPECT_EQ(Spread("2", "2", "", R"(,"optimal":false,"flows_left_out":3)"),
            "The busiest link of the fabric carries 2 when all open flows send at once. That is no "
            "verdict on all flows: 3 of them are not steered, wait for a port, or are cut off.\n");
  EXPECT_EQ(Spread("2", "2", "", R"(,"optimal":false,"paths_unreachable":true)"),
            "The busiest link of the fabric carries 2 when all open flows send at once. That is no "
            "verdict on all flows: no source port takes some paths.\n");
}

TEST(SpreadText, TellsTheGapAndWhetherItCanBeClosed) {
  EXPECT_EQ(Spread("3", "2", "a folded Clos that is not narrower upwards", kPhases),
            "The busiest link of the fabric carries 3 in the busiest phases of the jobs, and the "
            "lower bound is 2.\n"
            "`espalier recompute` is sure to reach it: this is a folded Clos that is not narrower "
            "upwards.\n");
  EXPECT_EQ(Spread("3", "2", "", ""),
            "The busiest link of the fabric carries 3 when all open flows send at once, and the "
            "lower bound is 2.\n"
            "No theorem says whether these flows can reach it; `espalier recompute --dry-run` "
            "shows what they can.\n");
}

TEST(SpreadText, NamesSomePathsThatNoPortTakes) {
  const auto describe = [](const std::string& paths) {
    return DescribeUnreachable(*io::ParseJson(R"({"paths":[)" + paths + "]}", "answer"));
  };
  const std::string reachable = R"({"via":"a0+c0"})";
  EXPECT_EQ(describe(reachable), "");
  const std::string two =
      R"({"via":"a0+c1","unreachable":true},{"via":"a1+c2","unreachable":true})";
  EXPECT_EQ(describe(reachable + "," + two),
            "No source port takes 2 of its 3 paths (a0+c1, a1+c2), as switches of two tiers hash "
            "alike: give the tiers\ndifferent hash seeds.\n");
  EXPECT_NE(describe(two + "," + two + "," + two)
                .find("takes 6 of its 6 paths (a0+c1, a1+c2, "
                      "a0+c1, a1+c2, ...)"),
            std::string::npos);
}

TEST(SpreadText, IsEmptyForAnOldController) {
  EXPECT_EQ(DescribeSpread(*io::ParseJson(R"({"known_ports":3})", "answer")), "");
}

}  // namespace
}  // namespace espalier::cli
