#include "agent/probe/prober.h"

#include <gmock/gmock.h>

#include "tests/agent/agent_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ProberTest : public AgentTest {
 protected:
  void SetUp() override { Sync(); }
  static wire::ProbeOrder Order(std::uint64_t number, std::size_t ports,
                                std::uint32_t probes_per_second = 1000) {
    wire::ProbeOrder order{.order = number,
                           .source = Address("10.0.0.1"),
                           .destination = Address("10.1.0.1"),
                           .source_ports = {},
                           .ttls = {2},
                           .probes_per_second = probes_per_second,
                           .timeout_us = 100'000};
    for (std::size_t i = 0; i < ports; ++i) {
      order.source_ports.push_back(static_cast<std::uint16_t>(0xC000 + i));
    }
    return order;
  }
  void Give(wire::ProbeOrder order) { bus_.Deliver(std::move(order), kController); }
  std::vector<wire::ProbeReport> Reports() { return bus_.Take<wire::ProbeReport>(); }
};

TEST_F(ProberTest, EachPortIsProbedWithEachTtlAndAnswersAreReported) {
  wire::ProbeOrder order = Order(1, 3);
  order.ttls = {2, 3};
  Give(order);
  Live(kSecond);
  EXPECT_THAT(probes_.sent, SizeIs(6));
  std::set<std::pair<std::uint16_t, std::uint8_t>> answered;
  const auto reports = Reports();
  for (const wire::ProbeReport& report : reports) {
    EXPECT_EQ(report.order, 1u);
    EXPECT_EQ(report.done, &report == &reports.back());
    for (const wire::ProbeAnswer& answer : report.answers) {
      EXPECT_EQ(answer.responder.ToString(), answer.ttl == 2 ? "172.16.0.2" : "172.16.0.3");
      EXPECT_TRUE(answered.emplace(answer.source_port, answer.ttl).second);
    }
  }
  EXPECT_THAT(answered, SizeIs(6));
  EXPECT_EQ(reports.back().sent, 6u);
  EXPECT_EQ(reports.back().error, "");
}

TEST_F(ProberTest, KeepsThePaceAndNeverBurstsBeyondTheLimit) {
  Give(Order(1, 2000, 1000));
  std::size_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::size_t before = probes_.sent.size();
    Step(kMs);
    most = std::max(most, probes_.sent.size() - before);
  }
  EXPECT_NEAR(static_cast<double>(probes_.sent.size()), 1000, 10);
  EXPECT_LE(most, 2u);
}

TEST_F(ProberTest, CatchesUpByOneBurstOnly) {
  Give(Order(1, 2000, 1000));
  probes_.error = Error{ErrorCode::kUnavailable, "full"};
  Live(kSecond);
  const std::size_t before = probes_.sent.size();
  probes_.error.reset();
  Step(kMs);
  EXPECT_EQ(probes_.sent.size() - before, 64u);
}

TEST_F(ProberTest, SilenceIsReportedAsNoAnswer) {
  probes_.dead_ports = {0xC001};
  Give(Order(1, 3));
  Live(90 * kMs);
  for (const wire::ProbeReport& report : Reports()) EXPECT_FALSE(report.done);
  Live(kSecond);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_TRUE(reports[0].done);
  EXPECT_EQ(reports[0].sent, 3u);
  EXPECT_THAT(reports[0].answers, IsEmpty());
}

TEST_F(ProberTest, AnswersComeInBatches) {
  Give(Order(1, 2000, 100'000));
  Live(kSecond);
  const auto reports = Reports();
  std::size_t answers = 0;
  for (const wire::ProbeReport& report : reports) {
    EXPECT_LE(report.answers.size(), 512u);
    answers += report.answers.size();
  }
  EXPECT_EQ(answers, 2000u);
  EXPECT_LE(reports.size(), 8u);
  EXPECT_TRUE(reports.back().done);
}

TEST_F(ProberTest, FirstAnswerCountsAndStrangersAnswersDoNot) {
  probes_.answers = false;
  Give(Order(1, 1));
  Step(10 * kMs);
  ASSERT_THAT(probes_.sent, SizeIs(1));
  const ProbeMark mark = probes_.MarkOfLast();
  Probe other = probes_.sent[0];
  other.source_port = 1;
  probes_.Answer(other, mark);
  other = probes_.sent[0];
  other.destination = Address("10.9.9.9");
  probes_.Answer(other, mark);
  other = probes_.sent[0];
  other.ttl = 9;
  probes_.Answer(other, mark);
  probes_.Answer(probes_.sent[0], mark);
  probes_.Answer(probes_.sent[0], mark);
  Live(kSecond);
  probes_.Answer(probes_.sent[0], mark);  // late
  Live(kSecond);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_THAT(reports[0].answers, SizeIs(1));
}

TEST_F(ProberTest, AnswersThatDoNotQuoteTheMarkAreCountedAndNotBelieved) {
  probes_.answers = false;
  Give(Order(1, 1));
  Step(10 * kMs);
  const ProbeMark mark = probes_.MarkOfLast();
  for (const ProbeMark& wrong : {ProbeMark{mark.head + 1, mark.nonce}, ProbeMark{mark.head + 1, 0},
                                 ProbeMark{mark.head, mark.nonce + 1}, ProbeMark{0, mark.nonce}}) {
    probes_.Answer(probes_.sent[0], wrong);
  }
  Live(50 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  EXPECT_THAT(metrics_.Text(), HasSubstr("espalier_agent_probe_answers_forged_total 4\n"));
  probes_.Answer(probes_.sent[0], {mark.head, 0});  // a switch that quotes 8 bytes
  probes_.Answer(probes_.sent[0], mark);            // for which nothing waits any more
  Live(kSecond);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_THAT(reports[0].answers, SizeIs(1));
  EXPECT_THAT(metrics_.Text(), HasSubstr("espalier_agent_probe_answers_forged_total 4\n"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("espalier_agent_probe_answers_unmatched_total 1\n"));
}

TEST_F(ProberTest, OverIpv6TheNonceMustBeQuoted) {
  probes_.answers = false;
  wire::ProbeOrder order = Order(1, 1);
  order.source = Address("fd00::1");
  order.destination = Address("fd00:1::1");
  Give(order);
  Step(10 * kMs);
  const ProbeMark mark = probes_.MarkOfLast();
  probes_.Answer(probes_.sent[0], {mark.head, 0});
  Live(50 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  probes_.Answer(probes_.sent[0], mark);
  Live(kSecond);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_THAT(reports[0].answers, SizeIs(1));
}

TEST_F(ProberTest, OrdersBeyondTheLimitsAreRefused) {
  wire::ProbeOrder far = Order(1, 1);
  far.ttls = {2, 17};
  Give(far);
  wire::ProbeOrder to_a_service = Order(2, 1);
  to_a_service.destination_port = 53;
  Give(to_a_service);
  Live(kSecond);
  EXPECT_THAT(probes_.sent, IsEmpty());
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(2));
  for (const wire::ProbeReport& report : reports) EXPECT_TRUE(report.done);
  EXPECT_EQ(reports[0].error, "TTL 17 exceeds this agent's max_probe_ttl, which is 16");
  EXPECT_EQ(reports[1].error, "destination port 53 is not allowed (use 1024 or higher)");
}

TEST_F(ProberTest, OneNumberIsCarriedOutOnce) {
  Give(Order(1, 2));
  Give(Order(1, 5));
  Live(kSecond);
  Give(Order(1, 5));
  Live(kSecond);
  EXPECT_THAT(probes_.sent, SizeIs(2));
  // The next controller may use the same numbers.
  Welcome(kController);
  Give(Order(1, 5));
  Live(kSecond);
  EXPECT_THAT(probes_.sent, SizeIs(7));
}

TEST_F(ProberTest, OrdersQueueAndTooManyAreRefused) {
  for (std::uint64_t number = 1; number <= 300; ++number) Give(Order(number, 10, 100'000));
  std::size_t refused = 0;
  for (const wire::ProbeReport& report : Reports()) {
    if (!report.error.empty()) ++refused;
    EXPECT_EQ(report.error.empty(), !report.done);
  }
  EXPECT_EQ(refused, 300u - 256u);
  Live(5 * kSecond);
  std::size_t done = 0;
  for (const wire::ProbeReport& report : Reports()) done += report.done ? 1 : 0;
  EXPECT_EQ(done, 256u);
  EXPECT_THAT(probes_.sent, SizeIs(2560));
}

TEST_F(ProberTest, FullSocketDelaysAndOtherErrorsEndAnOrder) {
  probes_.error = Error{ErrorCode::kUnavailable, "full"};
  Give(Order(1, 3));
  Live(50 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  probes_.error.reset();
  Live(kSecond);
  EXPECT_EQ(Reports().back().sent, 3u);
  probes_.error = Error{ErrorCode::kInvalidArgument, "not an address of this host"};
  Give(Order(2, 3));
  Live(kSecond);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_TRUE(reports[0].done);
  EXPECT_EQ(reports[0].sent, 0u);
  EXPECT_EQ(reports[0].error, "not an address of this host");
}

TEST_F(ProberTest, OrdersOfAControllerThatIsGoneAreDropped) {
  Give(Order(1, 60'000, 1000));
  Step(5 * kSecond);
  ASSERT_EQ(agent_->state(), AgentState::kOrphan);
  const std::size_t sent = probes_.sent.size();
  Step(5 * kSecond);
  EXPECT_EQ(probes_.sent.size(), sent);
}

TEST_F(ProberTest, EmptyOrderIsDoneAtOnce) {
  wire::ProbeReport seen;
  Prober prober({}, loop_, probes_, metrics_);
  prober.Start(Order(1, 0), [&seen](const wire::ProbeReport& report) { seen = report; });
  EXPECT_TRUE(seen.done);
  EXPECT_EQ(seen.sent, 0u);
}

}  // namespace
}  // namespace espalier::agent
