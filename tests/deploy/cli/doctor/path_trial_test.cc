#include "deploy/cli/doctor/path_trial.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace espalier::doctor {
namespace {

// A hop that many ports reach, whose answers come from so many addresses in turn.
HopAnswers Hop(int number, int ports, int addresses, int sprayed = 0) {
  HopAnswers hop{
      .sent = 112, .answered = static_cast<std::size_t>(ports) + 48, .by_port = {}, .repeated = 16};
  for (int i = 0; i < ports; ++i) {
    const auto address = [&](int n) {
      return IpAddress::FromV4(static_cast<std::uint32_t>(0xAC100000 + 256 * number + n));
    };
    auto& answers = hop.by_port[static_cast<std::uint16_t>(50'000 + i)];
    answers.insert(address(i % addresses));
    if (i < sprayed) answers.insert(address((i + 1) % addresses));
  }
  return hop;
}

State Of(const std::vector<HopAnswers>& hops, const std::string& check) {
  Findings findings;
  JudgePaths(hops, findings);
  EXPECT_EQ(findings.all().size(), 3U);
  const auto found = std::ranges::find(findings.all(), check, &Finding::check);
  return found == findings.all().end() ? State::kSkipped : found->state;
}

TEST(PathTrial, IsOkWhereThePortChoosesTheSpine) {
  const std::vector<HopAnswers> hops = {Hop(1, 64, 1), Hop(2, 64, 4), Hop(3, 64, 1)};
  for (const char* const check : {"path_answers", "path_port", "path_spraying"}) {
    EXPECT_EQ(Of(hops, check), State::kOk) << check;
  }
}

TEST(PathTrial, FailsWhereAllPortsTakeOnePath) {
  EXPECT_EQ(Of({Hop(1, 64, 1), Hop(2, 64, 1), Hop(3, 64, 1)}, "path_port"), State::kFailed);
  EXPECT_EQ(Of({Hop(1, 64, 1), Hop(2, 11, 1)}, "path_port"), State::kFailed);
  // Ten ports may miss one of two paths by chance.
  EXPECT_EQ(Of({Hop(1, 64, 1), Hop(2, 10, 1)}, "path_port"), State::kSkipped);
  EXPECT_EQ(Of({Hop(1, 64, 1)}, "path_port"), State::kSkipped);
}

TEST(PathTrial, NamesTheSwitchBeforeTheHopWherePortsDivide) {
  const std::vector<HopAnswers> hops = {Hop(1, 64, 1), Hop(2, 64, 2, 12)};
  Findings findings;
  JudgePaths(hops, findings);
  const Finding& finding = findings.all().back();
  EXPECT_EQ(finding.check, "path_spraying");
  EXPECT_EQ(finding.state, State::kWarning);
  EXPECT_EQ(finding.subject, "172.16.1.0");
  // Two ports that changed may be a change of routes.
  EXPECT_EQ(Of({Hop(1, 64, 1), Hop(2, 64, 2, 2)}, "path_spraying"), State::kOk);
}

TEST(PathTrial, SaysThatSwitchesLimitTheirAnswers) {
  HopAnswers limited = Hop(1, 7, 1);
  limited.answered = 8;
  limited.repeated = 1;
  EXPECT_EQ(Of({limited}, "path_answers"), State::kWarning);
  EXPECT_EQ(Of({limited}, "path_spraying"), State::kSkipped);
  EXPECT_EQ(Of({}, "path_answers"), State::kFailed);
  EXPECT_EQ(Of({}, "path_port"), State::kSkipped);
}

TEST(PathTrial, RefusesIpv6AndEndsWhereNobodyAnswers) {
  EXPECT_EQ(TryPaths(*IpAddress::Parse("fd00::1")).error().code, ErrorCode::kUnsupported);
  const PathTrialOptions few{.ports = 4, .repeated = 1, .repeats = 1, .per_second = 1'000};
  const auto hops = TryPaths(*IpAddress::Parse("127.0.0.1"), few);
  ASSERT_TRUE(hops.has_value()) << hops.error().message;
  EXPECT_TRUE(hops->empty());
}

}  // namespace
}  // namespace espalier::doctor
