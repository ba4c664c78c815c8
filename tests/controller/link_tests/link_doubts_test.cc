#include "controller/link_tests/link_doubts.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::DirectedLink;

class Doubts : public testing::Test {
 protected:
  static DirectedLink Link(std::size_t index) { return DirectedLink::FromIndex(index); }
  // A flow of this host over these links repeats something once a second.
  void Repeat(int host, std::vector<std::size_t> indices, int seconds, int times = 1) {
    std::vector<DirectedLink> links;
    for (const std::size_t index : indices) links.push_back(Link(index));
    for (int i = 0; i < seconds; ++i, now_ += 1s) {
      for (int k = 0; k < times; ++k) {
        doubts_.HandleRepeats(AgentId(host), "h" + std::to_string(host), links, now_);
      }
      doubts_.Update(now_);
    }
  }
  bool IsInFocus(std::size_t index) const {
    return std::ranges::any_of(doubts_.focus(), [&](const LinkDoubts::Focus& focus) {
      return focus.link.Index() == index;
    });
  }

  LinkDoubts doubts_;
  TimePoint now_{1h};
};

TEST_F(Doubts, VotesOfAHostAddUpToOneASecond) {
  Repeat(0, {1}, 1, 100);
  EXPECT_FALSE(IsInFocus(1)) << "a hundred repetitions in a second are one vote";
  Repeat(0, {1}, 3);
  EXPECT_TRUE(IsInFocus(1));
  EXPECT_TRUE(doubts_.focus()[0].suspected_by.contains("h0"));
}

TEST_F(Doubts, AVoteIsSharedByTheLinksOfThePath) {
  Repeat(0, {1, 2}, 4);
  EXPECT_TRUE(doubts_.focus().empty());
  for (int i = 0; i < 4; ++i) {
    now_ -= 1s;
    Repeat(1, {2, 3}, 1);
    Repeat(2, {2, 4}, 1);
  }
  EXPECT_TRUE(IsInFocus(2)) << "which they have in common";
  EXPECT_FALSE(IsInFocus(3));
}

TEST_F(Doubts, VotesFadeAway) {
  Repeat(0, {1}, 3);
  now_ += 1min;
  Repeat(0, {1}, 3);
  EXPECT_FALSE(IsInFocus(1));
}

TEST_F(Doubts, AHostMayCauseOneFocusInTenSeconds) {
  Repeat(0, {1}, 4);
  ASSERT_TRUE(IsInFocus(1));
  const TimePoint opened = doubts_.focus()[0].since;
  Repeat(0, {2}, 5);
  EXPECT_FALSE(IsInFocus(2));
  while (now_ < opened + LinkDoubts::kHostPause) Repeat(0, {2}, 1);
  Repeat(0, {2}, 1);
  EXPECT_TRUE(IsInFocus(2));
}

TEST_F(Doubts, NoMoreLinksAreInFocusThanThereAreSlotsAndTrainsComeBeforeHosts) {
  for (int i = 0; i < 6; ++i, now_ += 1s) {
    for (int host = 0; host < 6; ++host) {
      const DirectedLink link = Link(static_cast<std::size_t>(10 + host));
      doubts_.HandleRepeats(AgentId(host), "h" + std::to_string(host), {&link, 1}, now_);
    }
  }
  doubts_.SetSuspicion(Link(40), LinkDoubts::kLeastSuspicion, now_);
  doubts_.SetSuspicion(Link(41), LinkDoubts::kLeastSuspicion - 0.1, now_);
  doubts_.Update(now_);
  EXPECT_EQ(doubts_.focus().size(), LinkDoubts::kMostInFocus);
  EXPECT_TRUE(IsInFocus(40));
  EXPECT_FALSE(IsInFocus(41));
  EXPECT_TRUE(doubts_.focus()[0].suspected_by.contains("sweep"));
}

TEST_F(Doubts, AnAcquittedLinkRestsTwiceAsLongEachTime) {
  for (const Duration rest : {60s, 120s, 240s}) {
    Repeat(0, {1}, 30);
    ASSERT_TRUE(IsInFocus(1));
    doubts_.Acquit(Link(1), now_);
    EXPECT_FALSE(IsInFocus(1));
    EXPECT_EQ(doubts_.EvidenceSince(Link(1)), now_);
    const TimePoint acquitted = now_;
    while (now_ + 1s < acquitted + rest) {
      Repeat(0, {1}, 1);
      ASSERT_FALSE(IsInFocus(1)) << SecondsOf(now_ - acquitted);
    }
    Repeat(0, {1}, 2);
    EXPECT_TRUE(IsInFocus(1));
  }
}

TEST_F(Doubts, TheSweepsOwnLossesBringALinkBackAtOnce) {
  doubts_.SetSuspicion(Link(1), 5, now_);
  doubts_.Update(now_);
  ASSERT_TRUE(IsInFocus(1));
  doubts_.Acquit(Link(1), now_);
  doubts_.Update(now_);
  EXPECT_FALSE(IsInFocus(1));
  doubts_.SetSuspicion(Link(1), 5, now_ + 1s);  // by trains since then
  doubts_.Update(now_ + 1s);
  EXPECT_TRUE(IsInFocus(1));
}

TEST_F(Doubts, AFocusEndsInTheEnd) {
  doubts_.SetSuspicion(Link(1), 5, now_);
  doubts_.Update(now_);
  now_ += LinkDoubts::kLongest - 1s;
  doubts_.Update(now_);
  EXPECT_TRUE(IsInFocus(1));
  now_ += 1s;
  doubts_.Update(now_);
  EXPECT_FALSE(IsInFocus(1));
}

TEST_F(Doubts, AnAccusedLinkIsInDoubtNoMore) {
  Repeat(0, {1}, 6);
  doubts_.Accuse(Link(1));
  doubts_.Update(now_);
  EXPECT_TRUE(doubts_.focus().empty());
  EXPECT_EQ(doubts_.EvidenceSince(Link(1)), TimePoint{});
}

TEST_F(Doubts, RepetitionsStayUnexplainedSinceTheyBegan) {
  Repeat(0, {1}, 4);
  const TimePoint since = doubts_.unexplained().since;
  Repeat(0, {1}, 10);
  doubts_.Acquit(Link(1), now_);  // which does not explain them
  Repeat(0, {1}, 3);
  EXPECT_EQ(doubts_.unexplained().since, since);
  EXPECT_EQ(doubts_.unexplained().worst, Link(1));
  EXPECT_EQ(doubts_.unexplained().hosts, std::set<std::string>{"h0"});
  now_ += 1min;
  doubts_.Update(now_);
  EXPECT_TRUE(doubts_.unexplained().hosts.empty());
}

}  // namespace
}  // namespace espalier::controller
