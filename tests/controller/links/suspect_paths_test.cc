#include "controller/links/suspect_paths.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using Verdict = SuspectPaths::Verdict;

constexpr TimePoint kFirstBad{1h};

UsedPort Port(std::uint16_t port) {
  return {.key = {.source = fabric::NodeId(1), .destination = fabric::NodeId(2)}, .port = port};
}

TEST(SuspectPathsTest, BelievesAPortThatAProbeConfirmed) {
  SuspectPaths suspects;
  EXPECT_EQ(suspects.Judge(7, Port(50'000), kFirstBad), Verdict::kAsk);
  EXPECT_EQ(suspects.Judge(7, Port(50'000), kFirstBad + 100ms), Verdict::kWait);
  suspects.HandleAnswer(Port(50'001));
  EXPECT_EQ(suspects.Judge(7, Port(50'000), kFirstBad + 100ms), Verdict::kWait);
  suspects.HandleAnswer(Port(50'000));
  EXPECT_EQ(suspects.Judge(7, Port(50'000), kFirstBad + 100ms), Verdict::kBelieve);
  // Another port of the subflow has to be confirmed, too.
  EXPECT_EQ(suspects.Judge(7, Port(50'001), kFirstBad + 200ms), Verdict::kAsk);
}

TEST(SuspectPathsTest, AsksAgainAndThenBelieves) {
  SuspectPaths suspects;
  int asked = 0;
  for (Duration passed{}; passed < SuspectPaths::kPatience; passed += 100ms) {
    const Verdict verdict = suspects.Judge(7, Port(50'000), kFirstBad + passed);
    asked += verdict == Verdict::kAsk ? 1 : 0;
    EXPECT_NE(verdict, Verdict::kBelieve);
  }
  EXPECT_EQ(asked, 5);
  EXPECT_EQ(suspects.Judge(7, Port(50'000), kFirstBad + SuspectPaths::kPatience),
            Verdict::kBelieve);
}

TEST(SuspectPathsTest, ForgetsSubflowsThatAreGoodAgain) {
  SuspectPaths suspects;
  suspects.Judge(7, Port(50'000), kFirstBad);
  suspects.HandleAnswer(Port(50'000));
  suspects.EndRound();
  suspects.EndRound();
  EXPECT_EQ(suspects.Judge(7, Port(50'000), kFirstBad + 1s), Verdict::kAsk);
}

}  // namespace
}  // namespace espalier::controller
