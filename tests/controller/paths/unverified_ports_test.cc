// Ports that only a model vouches for.
#include "controller/paths/unverified_ports.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

using fabric::PathIndex;
using Verdict = UnverifiedPorts::Verdict;

constexpr PathIndex kPath(2);

TEST(UnverifiedPorts, HasALimit) {
  UnverifiedPorts doubts;
  for (std::uint16_t port = 0; port < 1'000; ++port) doubts.Add(port, kPath);
  EXPECT_TRUE(doubts.PathOf(63).has_value());
  EXPECT_FALSE(doubts.PathOf(64).has_value());
  EXPECT_EQ(doubts.HandleSilence(64, true), UnverifiedPorts::Verdict::kUnknown);
  EXPECT_FALSE(doubts.IsQuarantined(64));
}

TEST(UnverifiedPorts, ForgetsSilenceWhenAModelPutsThePortOnAnotherPath) {
  UnverifiedPorts doubts;
  doubts.Add(1, kPath);
  doubts.HandleSilence(1, true);
  doubts.Add(1, PathIndex(0));
  EXPECT_EQ(doubts.HandleSilence(1, true), UnverifiedPorts::Verdict::kAskAgain);
  EXPECT_EQ(doubts.HandleSilence(1, true), UnverifiedPorts::Verdict::kQuarantined);
}

TEST(UnverifiedPorts, APortThatStaysSilentTwiceWhileOthersAnswerIsGivenUp) {
  UnverifiedPorts doubts;
  doubts.Add(1, kPath);
  EXPECT_EQ(doubts.PathOf(1), kPath);
  EXPECT_FALSE(doubts.NeedsControlProbes(1));
  EXPECT_EQ(doubts.HandleSilence(1, false), Verdict::kAskAgain);
  EXPECT_TRUE(doubts.NeedsControlProbes(1));
  EXPECT_EQ(doubts.HandleSilence(1, true), Verdict::kAskAgain);
  EXPECT_EQ(doubts.HandleSilence(1, true), Verdict::kQuarantined);
  EXPECT_TRUE(doubts.IsQuarantined(1));
  EXPECT_FALSE(doubts.NeedsControlProbes(1));
  EXPECT_EQ(doubts.HandleSilence(1, true), Verdict::kUnknown);  // once
}

TEST(UnverifiedPorts, SilenceOfAllIsUnknownAndAskedAboutSoOften) {
  UnverifiedPorts doubts;
  doubts.Add(1, kPath);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(doubts.HandleSilence(1, false), Verdict::kAskAgain);
  EXPECT_EQ(doubts.HandleSilence(1, false), Verdict::kUnknown);
  EXPECT_FALSE(doubts.IsQuarantined(1));
  doubts.Renew(1);
  EXPECT_FALSE(doubts.NeedsControlProbes(1));
  EXPECT_EQ(doubts.HandleSilence(1, false), Verdict::kAskAgain);
}

TEST(UnverifiedPorts, AnAnswerEndsTheDoubt) {
  UnverifiedPorts doubts;
  doubts.Add(1, kPath);
  doubts.HandleSilence(1, true);
  doubts.HandleAnswer(1);
  EXPECT_EQ(doubts.PathOf(1), std::nullopt);
  EXPECT_EQ(doubts.HandleSilence(1, true), Verdict::kUnknown);
  doubts.Renew(1);
  EXPECT_EQ(doubts.PathOf(1), std::nullopt);
}

TEST(UnverifiedPorts, AnotherFabricIsAnotherChance) {
  UnverifiedPorts doubts;
  for (const std::uint16_t port : {std::uint16_t{1}, std::uint16_t{2}}) {
    doubts.Add(port, kPath);
    doubts.HandleSilence(port, true);
  }
  doubts.HandleSilence(1, true);
  doubts.StartOver();
  EXPECT_FALSE(doubts.IsQuarantined(1));
  EXPECT_EQ(doubts.PathOf(1), std::nullopt);
  EXPECT_EQ(doubts.HandleSilence(2, true), Verdict::kAskAgain);  // counted anew
}

}  // namespace
}  // namespace espalier::controller
