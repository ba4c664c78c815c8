#include "deploy/cli/lists/empty_list.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

const ListSpec kSpec = {.name = "jobs",
                        .filters = {{"--job", "", {"job"}, "", {}},
                                    {"--host", "", {"from", "to"}, "", {}},
                                    {"--link", "", {}, "link", {}}}};

std::vector<io::JsonValue> Rows() {
  return {MakeRow({{"job", "B"}, {"from", "h10"}, {"to", "h2"}}),
          MakeRow({{"job", "train"}, {"from", "h2"}, {"to", "h10"}})};
}

TEST(EmptyList, NamesWhatThereIs) {
  EXPECT_EQ(WhyEmpty(kSpec, {"nosuch", "", ""}, false, Rows()),
            "--job nosuch matches nothing (there are: B, train)");
  EXPECT_EQ(WhyEmpty(kSpec, {"trian", "", ""}, false, Rows()),
            "--job trian matches nothing (did you mean train? there are: B, train)");
  EXPECT_EQ(WhyEmpty(kSpec, {"", "h7*", ""}, false, Rows()),
            "--host h7* matches nothing (there are: h2, h10)");
}

TEST(EmptyList, NamesNoMoreThanFitsALine) {
  std::vector<io::JsonValue> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(MakeRow({{"job", "j" + std::to_string(i)}}));
  EXPECT_EQ(WhyEmpty(kSpec, {"nosuch", "", ""}, false, rows),
            "--job nosuch matches nothing (there are: j0, j1, j2, j3, j4, j5, j6, j7 and 12 more)");
}

TEST(EmptyList, SaysWhichOfSeveralReasonsHolds) {
  EXPECT_EQ(WhyEmpty(kSpec, {"", "", ""}, false, {}), "the list is empty");
  EXPECT_EQ(WhyEmpty(kSpec, {"x", "", ""}, false, {}),
            "--job x matches nothing: the list is empty");
  EXPECT_EQ(WhyEmpty(kSpec, {"B", "h2", ""}, false, Rows()),
            "no row matches --job B and --host h2");
  EXPECT_EQ(WhyEmpty(kSpec, {"", "", "l1"}, false, Rows()), "no row matches --link l1");
  EXPECT_EQ(WhyEmpty(kSpec, {"", "", ""}, true, Rows()), "no row is down");
  EXPECT_EQ(WhyEmpty(kSpec, {"B", "", ""}, true, Rows()), "no row with --job B is down");
  EXPECT_EQ(WhyEmpty(kSpec, {"\x1b[2J", "", ""}, false, {}).find('\x1b'), std::string::npos);
}

TEST(EmptyList, RefusesPatternsThatMatchNoValue) {
  const std::vector<std::string> states = {"UP", "DOWN"};
  EXPECT_EQ(CheckPattern("up", states), "");
  EXPECT_EQ(CheckPattern("D*", states), "");
  EXPECT_EQ(CheckPattern("bogus", states), "\"bogus\" is none of UP, DOWN");
}

}  // namespace
}  // namespace espalier::cli
