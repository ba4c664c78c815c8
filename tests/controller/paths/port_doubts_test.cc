// Ports that only a model vouches for.
#include "controller/paths/port_doubts.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

using fabric::PathIndex;
using Verdict = PortDoubts::Verdict;

constexpr PathIndex kPath(2);

TEST(PortDoubts, HasALimit) {
  PortDoubts doubts;
  for (std::uint16_t port = 0; port < 1'000; ++port) doubts.Add(port, kPath);
  EXPECT_TRUE(doubts.PathOf(63).has_value());
  EXPECT_FALSE(doubts.PathOf(64).has_value());
  EXPECT_EQ(doubts.HandleSilence(64, true), PortDoubts::Verdict::kUnknown);
  EXPECT_FALSE(doubts.HasGivenUp(64));
}

TEST(PortDoubts, ForgetsSilenceWhenAModelPutsThePortOnAnotherPath) {
  PortDoubts doubts;
  doubts.Add(1, kPath);
  doubts.HandleSilence(1, true);
  doubts.Add(1, PathIndex(0));
  EXPECT_EQ(doubts.HandleSilence(1, true), PortDoubts::Verdict::kAskAgain);
  EXPECT_EQ(doubts.HandleSilence(1, true), PortDoubts::Verdict::kGivenUp);
}

TEST(PortDoubts, APortThatStaysSilentTwiceWhileOthersAnswerIsGivenUp) {
  PortDoubts doubts;
  doubts.Add(1, kPath);
  EXPECT_EQ(doubts.PathOf(1), kPath);
  EXPECT_FALSE(doubts.WantsOthers(1));
  EXPECT_EQ(doubts.HandleSilence(1, false), Verdict::kAskAgain);
  EXPECT_TRUE(doubts.WantsOthers(1));
  EXPECT_EQ(doubts.HandleSilence(1, true), Verdict::kAskAgain);
  EXPECT_EQ(doubts.HandleSilence(1, true), Verdict::kGivenUp);
  EXPECT_TRUE(doubts.HasGivenUp(1));
  EXPECT_FALSE(doubts.WantsOthers(1));
  EXPECT_EQ(doubts.HandleSilence(1, true), Verdict::kUnknown);  // once
}

TEST(PortDoubts, SilenceOfAllIsUnknownAndAskedAboutSoOften) {
  PortDoubts doubts;
  doubts.Add(1, kPath);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(doubts.HandleSilence(1, false), Verdict::kAskAgain);
  EXPECT_EQ(doubts.HandleSilence(1, false), Verdict::kUnknown);
  EXPECT_FALSE(doubts.HasGivenUp(1));
  doubts.Renew(1);
  EXPECT_FALSE(doubts.WantsOthers(1));
  EXPECT_EQ(doubts.HandleSilence(1, false), Verdict::kAskAgain);
}

TEST(PortDoubts, AnAnswerEndsTheDoubt) {
  PortDoubts doubts;
  doubts.Add(1, kPath);
  doubts.HandleSilence(1, true);
  doubts.HandleAnswer(1);
  EXPECT_EQ(doubts.PathOf(1), std::nullopt);
  EXPECT_EQ(doubts.HandleSilence(1, true), Verdict::kUnknown);
  doubts.Renew(1);
  EXPECT_EQ(doubts.PathOf(1), std::nullopt);
}

TEST(PortDoubts, AnotherFabricIsAnotherChance) {
  PortDoubts doubts;
  for (const std::uint16_t port : {std::uint16_t{1}, std::uint16_t{2}}) {
    doubts.Add(port, kPath);
    doubts.HandleSilence(port, true);
  }
  doubts.HandleSilence(1, true);
  doubts.StartOver();
  EXPECT_FALSE(doubts.HasGivenUp(1));
  EXPECT_EQ(doubts.PathOf(1), std::nullopt);
  EXPECT_EQ(doubts.HandleSilence(2, true), Verdict::kAskAgain);  // counted anew
}

}  // namespace
}  // namespace espalier::controller
