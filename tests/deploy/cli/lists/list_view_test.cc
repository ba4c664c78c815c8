#include "deploy/cli/lists/list_view.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace espalier::cli {
namespace {

using namespace std::chrono_literals;

std::vector<io::JsonValue> Rows(const std::vector<std::string>& ids) {
  std::vector<io::JsonValue> rows;
  for (const std::string& id : ids)
    rows.push_back(*io::ParseJson(R"({"id": ")" + id + "\"}", "row"));
  return rows;
}

std::vector<std::string> IdsOf(const std::vector<io::JsonValue>& rows) {
  std::vector<std::string> ids;
  for (const io::JsonValue& row : rows) ids.push_back(row.Find("id")->text);
  return ids;
}

TEST(ListView, ComparesAsPeopleDo) {
  EXPECT_TRUE(CompareNaturally("h9", "h10") < 0);
  EXPECT_TRUE(CompareNaturally("h10:9", "h10:10") < 0);
  EXPECT_TRUE(CompareNaturally("h2", "leaf1") < 0);
  EXPECT_TRUE(CompareNaturally("h7", "h7") == 0);
  EXPECT_EQ(CompareNaturally("h07", "h7") < 0, CompareNaturally("h7", "h07") > 0);
  EXPECT_TRUE(CompareNaturally("", "a") < 0);
  EXPECT_TRUE(CompareNaturally("h18446744073709551616", "h9") > 0);  // beyond 64 bits
}

// The order is total and does not depend on the order before.
TEST(ListView, SortsTheSameFromAnyOrder) {
  std::vector<std::string> ids = {"h0", "h1", "h2", "h10", "h11", "h100", "leaf0", "leaf0--x1"};
  const std::vector<std::string> sorted = ids;
  do {
    auto rows = Rows(ids);
    SortRows(rows, "id", false);
    ASSERT_EQ(IdsOf(rows), sorted);
    SortRows(rows, "id", true);
    ASSERT_EQ(IdsOf(rows), std::vector<std::string>(sorted.rbegin(), sorted.rend()));
  } while (std::next_permutation(ids.begin(), ids.begin() + 6));
}

TEST(ListView, MatchesPatternsWithoutRegardToCase) {
  const io::JsonValue row = Rows({"leaf0--spine1"}).front();
  EXPECT_TRUE(Matches(row, {"id"}, "LEAF0--*"));
  EXPECT_TRUE(Matches(row, {"none", "id"}, "leaf?--spine1"));
  EXPECT_FALSE(Matches(row, {"id"}, "leaf0"));
  EXPECT_FALSE(Matches(row, {"none"}, "leaf0*"));
  EXPECT_TRUE(Matches(row, {"none"}, "-"));  // what is empty is shown so
}

TEST(ListView, SinceIsAPeriodOrADate) {
  const WallTime now = *ParseWallTime("2026-11-26T12:00Z", {});
  EXPECT_EQ(*ParseSince("30m", now), now - 30min);
  EXPECT_EQ(*ParseSince("+2h", now), now - 2h);
  EXPECT_EQ(*ParseSince("2026-11-26T11:00Z", now), now - 1h);
  EXPECT_FALSE(ParseSince("yesterday", now));
}

}  // namespace
}  // namespace espalier::cli
