#include "agent/probe/link_tester.h"

#include <gmock/gmock.h>

#include "agent/probe/sockets/no_train_socket.h"
#include "tests/agent/probe/train_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LinkTesterTest : public TrainTest {};

TEST_F(LinkTesterTest, ReportsOnceASecondInOneMessage) {
  wire::TrainOrder order = Sending(1, 3);
  order.expected = Expecting(100, 2).expected;
  Give(order);
  for (std::uint8_t i = 0; i < 4; ++i) Arrive(100, i);
  Step(990 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  Step(20 * kMs);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_THAT(reports[0].sent, SizeIs(3));
  EXPECT_THAT(reports[0].received, SizeIs(2));
  Live(3 * kSecond);
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(LinkTesterTest, UrgentTrainsAreReportedWhenTheyEnd) {
  wire::TrainOrder order = Expecting(100, 2, 200 * kMs);
  order.urgent = true;
  Give(order);
  for (std::uint8_t i = 0; i < 4; ++i) Arrive(100, i);
  Step(6 * kMs);
  const auto complete = Received();
  ASSERT_THAT(complete, SizeIs(1));
  EXPECT_EQ(complete[0].number, 100U);
  Step(180 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  Step(20 * kMs);
  EXPECT_THAT(Received(), ElementsAre(wire::ReceivedTrain{.number = 101}));
  wire::TrainOrder sending = Sending(1, 1);
  sending.urgent = true;
  Give(sending);
  Step(10 * kMs);
  EXPECT_THAT(Sent(), SizeIs(1));
}

TEST_F(LinkTesterTest, AnUrgentTrainDoesNotWaitForTheNextReportOfOthers) {
  Give(Sending(1, 1));
  Step(10 * kMs);
  wire::TrainOrder order = Sending(2, 1);
  order.urgent = true;
  Give(order);
  Step(10 * kMs);
  EXPECT_THAT(Sent(), SizeIs(2));
}

TEST_F(LinkTesterTest, ReportsAreNoLongerThanTheLimit) {
  for (std::uint64_t i = 0; i < 4; ++i) Give(Expecting(1 + 10'000 * i, 1'000, 100 * kMs));
  Live(3 * kSecond);
  const auto reports = Reports();
  EXPECT_THAT(reports, SizeIs(2));
  std::size_t rows = 0;
  for (const wire::TrainReport& report : reports) {
    EXPECT_LE(report.received.size(), 2'048U);
    rows += report.received.size();
  }
  EXPECT_EQ(rows, 4'000U);
}

// A report with a number twice would be a broken message, for which controllers disconnect.
TEST_F(LinkTesterTest, ANumberThatIsOrderedTwiceIsReportedOnce) {
  Give(Sending(1, 2));
  Give(Sending(1, 2));
  Live(2 * kSecond);
  EXPECT_THAT(Sent(), SizeIs(2));
}

TEST_F(LinkTesterTest, ReportsAreDroppedWhenTheAllowanceIsUsedUp) {
  bus_.Deliver(wire::Welcome{.accepted = true,
                             .epoch = 1,
                             .heartbeat_interval_us = 1'000'000,
                             .max_entries_per_second = 100},
               kController);
  bus_.sent.clear();
  const auto dropped = [this] {
    return metrics_.MakeCounter("espalier_agent_path_reports_dropped_total", "").Value();
  };
  Give(Sending(1, 400, 1));
  Live(1'100 * kMs);
  const auto before = dropped();
  Give(Sending(1'000, 10, 1));
  Live(1'100 * kMs);
  EXPECT_EQ(dropped(), before + 1);
  EXPECT_EQ(agent_->state(), AgentState::kSynced);
}

TEST_F(LinkTesterTest, AnAgentWithoutASocketReportsTrainsAsVoid) {
  NoTrainSocket none;
  std::vector<wire::TrainReport> reports;
  LinkTester tester(
      {}, loop_, none, metrics_, [](const IpAddress&) { return true; },
      [&](wire::TrainReport report) { reports.push_back(std::move(report)); });
  wire::TrainOrder order = Sending(1, 1);
  order.expected = Expecting(100, 1).expected;
  tester.Handle(order);
  Step(2 * kSecond);
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_THAT(reports[0].sent, ElementsAre(wire::SentTrain{.number = 1}));
  EXPECT_THAT(reports[0].received,
              ElementsAre(wire::ReceivedTrain{.number = 100, .overflowed = true}));
}

}  // namespace
}  // namespace espalier::agent
