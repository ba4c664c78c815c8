#include "controller/telemetry/exporters.h"

#include <gtest/gtest.h>

namespace espalier::telemetry {
namespace {

using namespace std::chrono_literals;
using Verdict = Exporters::Verdict;

class ExportersTest : public testing::Test {
 protected:
  Verdict Hear(std::uint32_t sequence, std::uint32_t uptime_ms, std::uint32_t sub_agent = 0) {
    SflowDatagram datagram;
    datagram.agent = kAgent;
    datagram.sequence = sequence;
    datagram.uptime_ms = uptime_ms;
    datagram.sub_agent = sub_agent;
    return exporters_.Judge(kSource, datagram, now_).verdict;
  }
  const Exporters::State& state() const { return exporters_.StateOf(0); }

  const IpAddress kAgent = IpAddress::FromV4(0x0A000001);
  const IpAddress kSource = IpAddress::FromV4(0x0A000002);
  TimePoint now_{std::chrono::hours(1)};
  Exporters exporters_{{{.node = fabric::NodeId(3), .agent = kAgent, .source = kSource}}};
};

TEST_F(ExportersTest, TakeOnlyListedPairsOfAgentAndSource) {
  SflowDatagram datagram;
  datagram.agent = kAgent;
  EXPECT_EQ(exporters_.Judge(kAgent, datagram, now_).verdict, Verdict::kStranger);
  datagram.agent = kSource;
  EXPECT_EQ(exporters_.Judge(kSource, datagram, now_).verdict, Verdict::kStranger);
  EXPECT_TRUE(state().IsSilent(now_));
  datagram.agent = kAgent;
  EXPECT_EQ(exporters_.Judge(kSource, datagram, now_).verdict, Verdict::kTake);
  EXPECT_FALSE(state().IsSilent(now_ + 29s));
  EXPECT_TRUE(state().IsSilent(now_ + 30s));
}

TEST_F(ExportersTest, CountGapsAndTakeThoseBackThatComeLate) {
  EXPECT_EQ(Hear(10, 1'000), Verdict::kTake);
  EXPECT_EQ(Hear(14, 1'400), Verdict::kTake);
  EXPECT_EQ(state().lost, 3U);
  EXPECT_EQ(Hear(12, 1'200), Verdict::kTake);
  EXPECT_EQ(state().lost, 2U);
  EXPECT_EQ(Hear(12, 1'200), Verdict::kRepeated);
  EXPECT_EQ(Hear(14, 1'400), Verdict::kRepeated);
  EXPECT_EQ(Hear(200, 2'000), Verdict::kTake);
  EXPECT_EQ(Hear(136, 1'900), Verdict::kLate);
  EXPECT_EQ(Hear(137, 1'900), Verdict::kTake);
  EXPECT_EQ(state().datagrams, 5U);
}

TEST_F(ExportersTest, SequencesWrap) {
  EXPECT_EQ(Hear(0xFFFFFFFF, 1'000), Verdict::kTake);
  EXPECT_EQ(Hear(1, 1'100), Verdict::kTake);
  EXPECT_EQ(state().lost, 1U);
  EXPECT_EQ(Hear(0xFFFFFFFF, 1'000), Verdict::kRepeated);
}

TEST_F(ExportersTest, ARestartIsBelievedAfterTwoDatagrams) {
  EXPECT_EQ(Hear(1'000, 500'000), Verdict::kTake);
  EXPECT_EQ(Hear(1, 100), Verdict::kLate);
  EXPECT_EQ(Hear(1'001, 500'100), Verdict::kTake) << "one datagram changes nothing";
  EXPECT_EQ(Hear(2, 200), Verdict::kLate) << "the first was contradicted";
  EXPECT_EQ(Hear(2, 200), Verdict::kLate) << "a repetition is no second one";
  EXPECT_EQ(Hear(3, 300), Verdict::kTakeRestarted);
  EXPECT_EQ(Hear(4, 400), Verdict::kTake);
  EXPECT_EQ(state().restarts, 1U);
  EXPECT_EQ(state().lost, 0U);
}

TEST_F(ExportersTest, SubAgentsCountByThemselvesAndAreLimited) {
  EXPECT_EQ(Hear(5, 1'000, 1), Verdict::kTake);
  EXPECT_EQ(Hear(900, 1'000, 2), Verdict::kTake);
  EXPECT_EQ(Hear(6, 1'000, 1), Verdict::kTake);
  EXPECT_EQ(state().lost, 0U);
  for (std::uint32_t i = 2; i < Exporters::kMostSubAgents; ++i)
    EXPECT_EQ(Hear(1, 1'000, 100 + i), Verdict::kTake);
  EXPECT_EQ(Hear(1, 1'000, 9'999), Verdict::kTooManySubAgents);
  EXPECT_EQ(Hear(7, 1'000, 1), Verdict::kTake);
}

}  // namespace
}  // namespace espalier::telemetry
