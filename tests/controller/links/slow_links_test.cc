#include "controller/links/slow_links.h"

#include <gtest/gtest.h>

#include <deque>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::DirectedLink;
using fabric::LinkId;

constexpr TimePoint kSlowStart{1h};

// A fabric of 4 leaves and 4 spines: link 4 * leaf + spine. Links of NICs are not in it.
class SlowLinksTest : public testing::Test {
 protected:
  static LinkId Link(int leaf, int spine) { return LinkId(4 * leaf + spine); }
  void Path(int from, int spine, int to, int bad_in_a_row = 0) {
    PathQuality::Judged& judged = judged_.emplace_back();
    judged.sample.subflow = judged_.size();
    judged.bad_in_a_row = bad_in_a_row;
    judged.accuses = bad_in_a_row > 0;
    judged.signs = "signs";
    const std::size_t up = DirectedLink{Link(from, spine), true}.Index();
    const std::size_t down = DirectedLink{Link(to, spine), false}.Index();
    for (const std::size_t link : {std::size_t{0}, up, down, std::size_t{0}}) {
      judged.sample.links[judged.sample.link_count++] = static_cast<std::uint32_t>(link);
    }
  }
  // Good paths between all leaves over all spines but those from or to `leaf` over `spine`.
  void GoodPaths(int leaf = -1, int spine = -1) {
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        for (int over = 0; over < 4; ++over) {
          const bool is_left_out = over == spine && (from == leaf || to == leaf);
          if (from != to && !is_left_out) Path(from, over, to);
        }
      }
    }
  }
  std::vector<SlowLinks::Change> Update(Duration after) {
    std::vector<const PathQuality::Judged*> samples;
    for (const PathQuality::Judged& judged : judged_) samples.push_back(&judged);
    return slow_.Update(
        samples, [this](LinkId) { return flows_; }, kSlowStart + after);
  }

  std::deque<PathQuality::Judged> judged_;
  std::size_t flows_ = 3;
  SlowLinks slow_{std::vector<std::uint32_t>(16, 7), kSlowStart};
};

TEST_F(SlowLinksTest, BlamesTheLinkThatBadPathsShare) {
  GoodPaths(1, 2);
  for (const int to : {0, 2, 3}) Path(1, 2, to, 2);
  const auto changes = Update(0s);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].link, Link(1, 2));
  EXPECT_TRUE(changes[0].is_slow);
  EXPECT_EQ(changes[0].signs, "signs");
  EXPECT_TRUE(Update(500ms).empty());  // the flows wait for other ports
  EXPECT_TRUE(slow_.IsSlow(Link(1, 2)));
}

TEST_F(SlowLinksTest, NeedsEnoughEvidence) {
  GoodPaths(1, 2);
  for (const int to : {0, 2, 3}) Path(1, 2, to, 1);
  EXPECT_TRUE(Update(0s).empty());
  judged_.clear();
  GoodPaths(1, 2);
  Path(1, 2, 0, 2);
  EXPECT_TRUE(Update(0s).empty());
  judged_.back().bad_in_a_row = 3;
  EXPECT_EQ(Update(500ms).size(), 1U);
}

// Both directions of a link may lose packets, each of one flow.
TEST_F(SlowLinksTest, AddsTheEvidenceOfBothDirections) {
  GoodPaths(1, 2);
  Path(3, 2, 1, 2);
  EXPECT_TRUE(Update(0s).empty());
  Path(1, 2, 0, 1);
  const auto changes = Update(0s);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].link, Link(1, 2)) << "which both share, not the first of either";
}

// The acknowledgements of one flow may have taken a dead link elsewhere.
TEST_F(SlowLinksTest, PathsThatHostsLeftNeedTwoAccusers) {
  GoodPaths(1, 2);
  Path(1, 2, 0, 5);
  judged_.back().is_left = true;
  EXPECT_TRUE(Update(0s).empty());
  Path(3, 2, 1, 1);
  const auto changes = Update(0s);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].link, Link(1, 2));
}

// Where acknowledgements are lost, hosts leave paths of all links, some of which share a link by
// chance.
TEST_F(SlowLinksTest, PathsThatHostsLeftMustMostlyShareTheLink) {
  const auto leave = [&](int from, int spine, int to) {
    Path(from, spine, to, 2);
    judged_.back().is_left = true;
  };
  GoodPaths(1, 2);
  for (const int to : {0, 2, 3}) leave(1, 2, to);
  leave(1, 0, 2);
  leave(3, 1, 0);
  EXPECT_TRUE(Update(0s).empty()) << "three of five";
  leave(0, 2, 1);
  const auto changes = Update(500ms);
  ASSERT_EQ(changes.size(), 1U) << "four of six";
  EXPECT_EQ(changes[0].link, Link(1, 2));
}

TEST_F(SlowLinksTest, NeedsAMajority) {
  GoodPaths(1, 2);
  Path(1, 2, 0, 5);
  Path(1, 2, 3);
  Path(0, 2, 1);
  Path(2, 2, 0);
  EXPECT_TRUE(Update(0s).empty());
}

TEST_F(SlowLinksTest, NeedsGoodSiblings) {
  Path(1, 2, 0, 5);
  Path(1, 0, 0);
  EXPECT_TRUE(Update(0s).empty());
  EXPECT_EQ(slow_.refused(), 1U);
}

TEST_F(SlowLinksTest, FindsTwoSlowLinksAtOnce) {
  GoodPaths(1, 2);
  for (const int to : {0, 2, 3}) Path(1, 2, to, 2);
  std::erase_if(judged_, [&](const PathQuality::Judged& judged) {
    return judged.sample.links[1] == DirectedLink{Link(3, 0), true}.Index();
  });
  for (const int to : {0, 1, 2}) Path(3, 0, to, 2);
  EXPECT_EQ(Update(0s).size(), 2U);
}

TEST_F(SlowLinksTest, TakesAQuarterOfATierAtMost) {
  GoodPaths(1, 2);
  flows_ = 0;
  int slow = 0;
  for (int leaf = 0; leaf < 4; ++leaf) {
    for (int spine = 0; spine < 2; ++spine) {
      judged_.clear();
      GoodPaths(leaf, spine);
      for (int to = 0; to < 4; ++to) {
        if (to != leaf) Path(leaf, spine, to, 3);
      }
      for (const auto& change : Update(0s)) slow += change.is_slow ? 1 : 0;
    }
  }
  EXPECT_EQ(slow, 4);
  EXPECT_GT(slow_.refused(), 0U);
}

// The flows of a link move together, and then those of the next link have to wait.
TEST_F(SlowLinksTest, BoundsTheMovesOfFlows) {
  flows_ = 56;
  const auto accuse = [&](int leaf) {
    judged_.clear();
    GoodPaths(leaf, 2);
    for (int to = 0; to < 4; ++to) {
      if (to != leaf) Path(leaf, 2, to, 3);
    }
  };
  accuse(0);
  EXPECT_EQ(Update(0s).size(), 1U);
  accuse(1);
  EXPECT_TRUE(Update(5s).empty());
  EXPECT_EQ(Update(11s).size(), 1U);  // 40 moves later, at 4 a second
}

TEST_F(SlowLinksTest, HoldsALinkLongerAfterEachRelapse) {
  TimePoint now = kSlowStart;
  Duration hold{};
  for (int i = 0; i < 8; ++i) {
    judged_.clear();
    GoodPaths(1, 2);
    for (const int to : {0, 2, 3}) Path(1, 2, to, 2);
    auto changes = Update(now - kSlowStart);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes[0].hold, std::min<Duration>(30s * (1 << i), 10min));
    hold = changes[0].hold;
    judged_.clear();
    EXPECT_TRUE(Update(now + hold - 1s - kSlowStart).empty());
    changes = Update(now + hold - kSlowStart);
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_FALSE(changes[0].is_slow);
    now += hold + 1min;
  }
  // After a calm time, it is forgiven.
  now += 20min;
  Update(now - kSlowStart);
  GoodPaths(1, 2);
  for (const int to : {0, 2, 3}) Path(1, 2, to, 2);
  EXPECT_EQ(Update(now - kSlowStart).at(0).hold, 30s);
}

}  // namespace
}  // namespace espalier::controller
