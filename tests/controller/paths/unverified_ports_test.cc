// Ports in use that are only predicted.
#include "controller/paths/unverified_ports.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

using fabric::PathIndex;
using Verdict = UnverifiedPorts::Verdict;

constexpr PathIndex kPath(2);

TEST(UnverifiedPorts, HasALimit) {
  UnverifiedPorts ports;
  for (std::uint16_t port = 0; port < 1'000; ++port) ports.Add(port, kPath);
  EXPECT_TRUE(ports.PathOf(63).has_value());
  EXPECT_FALSE(ports.PathOf(64).has_value());
  EXPECT_EQ(ports.HandleSilence(64, true), UnverifiedPorts::Verdict::kUnknown);
  EXPECT_FALSE(ports.IsQuarantined(64));
}

TEST(UnverifiedPorts, ForgetsSilenceWhenAModelPutsThePortOnAnotherPath) {
  UnverifiedPorts ports;
  ports.Add(1, kPath);
  ports.HandleSilence(1, true);
  ports.Add(1, PathIndex(0));
  EXPECT_EQ(ports.HandleSilence(1, true), UnverifiedPorts::Verdict::kAskAgain);
  EXPECT_EQ(ports.HandleSilence(1, true), UnverifiedPorts::Verdict::kQuarantined);
}

TEST(UnverifiedPorts, APortThatStaysSilentTwiceWhileOthersAnswerIsQuarantined) {
  UnverifiedPorts ports;
  ports.Add(1, kPath);
  EXPECT_EQ(ports.PathOf(1), kPath);
  EXPECT_FALSE(ports.NeedsControlProbes(1));
  EXPECT_EQ(ports.HandleSilence(1, false), Verdict::kAskAgain);
  EXPECT_TRUE(ports.NeedsControlProbes(1));
  EXPECT_EQ(ports.HandleSilence(1, true), Verdict::kAskAgain);
  EXPECT_EQ(ports.HandleSilence(1, true), Verdict::kQuarantined);
  EXPECT_TRUE(ports.IsQuarantined(1));
  EXPECT_FALSE(ports.NeedsControlProbes(1));
  EXPECT_EQ(ports.HandleSilence(1, true), Verdict::kUnknown);  // once
}

TEST(UnverifiedPorts, SilenceOfAllIsUnknownAndIsProbedALimitedNumberOfTimes) {
  UnverifiedPorts ports;
  ports.Add(1, kPath);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ports.HandleSilence(1, false), Verdict::kAskAgain);
  EXPECT_EQ(ports.HandleSilence(1, false), Verdict::kUnknown);
  EXPECT_FALSE(ports.IsQuarantined(1));
  ports.Renew(1);
  EXPECT_FALSE(ports.NeedsControlProbes(1));
  EXPECT_EQ(ports.HandleSilence(1, false), Verdict::kAskAgain);
}

TEST(UnverifiedPorts, AnAnswerRemovesThePort) {
  UnverifiedPorts ports;
  ports.Add(1, kPath);
  ports.HandleSilence(1, true);
  ports.HandleAnswer(1);
  EXPECT_EQ(ports.PathOf(1), std::nullopt);
  EXPECT_EQ(ports.HandleSilence(1, true), Verdict::kUnknown);
  ports.Renew(1);
  EXPECT_EQ(ports.PathOf(1), std::nullopt);
}

TEST(UnverifiedPorts, AFabricChangeResetsAllCounts) {
  UnverifiedPorts ports;
  for (const std::uint16_t port : {std::uint16_t{1}, std::uint16_t{2}}) {
    ports.Add(port, kPath);
    ports.HandleSilence(port, true);
  }
  ports.HandleSilence(1, true);
  ports.StartOver();
  EXPECT_FALSE(ports.IsQuarantined(1));
  EXPECT_EQ(ports.PathOf(1), std::nullopt);
  EXPECT_EQ(ports.HandleSilence(2, true), Verdict::kAskAgain);  // counted from 0
}

}  // namespace
}  // namespace espalier::controller
