#include "collective/forest/flow/parent_flow.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

using Group = ParentFlow::Group;

// Checks the result of Solve: all units of every group are on arcs that it may take, within their
// capacities.
void ExpectPlaced(const ParentFlow& flow, const std::vector<Group>& groups,
                  const std::vector<std::int64_t>& capacity) {
  std::vector<std::int64_t> load(capacity.size(), 0);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::int64_t placed = 0;
    for (std::size_t a = 0; a < capacity.size(); ++a) {
      const std::int64_t units = flow.Units(g, a);
      EXPECT_GE(units, 0);
      EXPECT_TRUE(units == 0 || (groups[g].allowed >> a & 1) != 0);
      placed += units;
      load[a] += units;
    }
    EXPECT_EQ(placed, groups[g].units);
  }
  for (std::size_t a = 0; a < capacity.size(); ++a) EXPECT_LE(load[a], capacity[a]);
}

// Decides by Hall's theorem: every set of groups fits into the arcs that one of them may take.
bool IsPossible(const std::vector<Group>& groups, const std::vector<std::int64_t>& capacity) {
  for (std::uint32_t set = 1; set < 1U << groups.size(); ++set) {
    std::uint64_t arcs = 0;
    std::int64_t room = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if ((set >> g & 1) == 0) continue;
      arcs |= groups[g].allowed;
      room -= groups[g].units;
    }
    for (std::size_t a = 0; a < capacity.size(); ++a)
      room += (arcs >> a & 1) != 0 ? capacity[a] : 0;
    if (room < 0) return false;
  }
  return true;
}

// Checks that the arcs have less room than the groups need that may take no others.
void ExpectTooFew(std::uint64_t arcs, const std::vector<Group>& groups,
                  const std::vector<std::int64_t>& capacity) {
  std::int64_t room = 0;
  for (std::size_t a = 0; a < capacity.size(); ++a) room += (arcs >> a & 1) != 0 ? capacity[a] : 0;
  for (const Group& group : groups) room -= (group.allowed & ~arcs) == 0 ? group.units : 0;
  EXPECT_LT(room, 0);
}

TEST(ParentFlow, PlacesAllUnitsWhereverThatIsPossible) {
  ParentFlow flow;  // solves many problems in turn
  int possible = 0;
  int impossible = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 3000)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const std::size_t arcs = 1 + random() % 6;
    std::vector<std::int64_t> capacity;
    for (std::size_t a = 0; a < arcs; ++a) {
      capacity.push_back(static_cast<std::int64_t>(random() % 9));
    }
    std::vector<Group> groups;
    for (std::size_t g = 1 + random() % 6; g > 0; --g) {
      groups.push_back(
          {random() % (std::uint64_t{1} << arcs), static_cast<std::int64_t>(random() % 7)});
    }
    const bool expected = IsPossible(groups, capacity);
    ++(expected ? possible : impossible);
    ASSERT_EQ(flow.Solve(groups, capacity), expected);
    if (expected) ExpectPlaced(flow, groups, capacity);
    if (!expected) ExpectTooFew(flow.blocked(), groups, capacity);
  }
  if (possible + impossible > 1) {
    EXPECT_GT(possible, 300);
    EXPECT_GT(impossible, 300);
  }
}

TEST(ParentFlow, MovesUnitsWhereGreedPlacedThemBadly) {
  // Both groups prefer arc 0; only the second one can move, by way of a third.
  const std::vector<Group> groups = {{0b011, 5}, {0b011, 5}, {0b110, 6}};
  ParentFlow flow;
  const std::vector<std::int64_t> enough = {6, 4, 6};
  ASSERT_TRUE(flow.Solve(groups, enough));
  ExpectPlaced(flow, groups, enough);
  EXPECT_FALSE(flow.Solve(groups, std::vector<std::int64_t>{6, 3, 6}));
}

}  // namespace
}  // namespace espalier::forest
