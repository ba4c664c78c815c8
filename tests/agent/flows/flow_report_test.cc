#include <gmock/gmock.h>

#include "agent/flows/flow_meter.h"
#include "agent/flows/flow_reporter.h"
#include "tests/agent/agent_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kMiB = 1 << 20;

class FlowReportTest : public AgentTest {
 protected:
  std::vector<wire::FlowReport> Reports() { return bus_.Take<wire::FlowReport>(); }
  // Moves `bytes` of a flow from remaining to sent.
  void Progress(std::uint64_t id, std::uint64_t bytes) {
    FlowSample& flow = source_.flows.at(wire::LocalFlowId(id));
    flow.remaining_bytes -= bytes;
    flow.sent_bytes += bytes;
  }
};

TEST_F(FlowReportTest, MiceAreNeverReported) {
  Sync();
  Open(1, kMiB - 1);
  Open(2, 100);
  for (int i = 0; i < 100; ++i) {
    Progress(1, 1000);
    Live(10 * kMs);
  }
  End(1);
  End(2);
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(FlowReportTest, OpenedElephantIsReportedAtOnceWithAllThatIsKnown) {
  Sync();
  FlowSample& flow = Open(7, 0);
  flow.local_qpn = 11;
  flow.remote_qpn = 12;
  flow.wait.timeout_us = 67'108;
  flow.wait.repetitions = 7;
  flow.max_paths = 4;
  flow.movable = false;
  flow.outstanding_bytes = kMiB;  // in the send buffer counts too
  Live(20 * kMs);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  const wire::FlowReport& report = reports[0];
  ASSERT_THAT(report.opened, SizeIs(1));
  const wire::OpenedFlow& opened = report.opened[0];
  EXPECT_EQ(opened.id.value(), 7u);
  EXPECT_EQ(report.jobs.at(opened.job), "a");
  EXPECT_EQ(report.addresses.at(opened.source), Address("10.0.0.1"));
  EXPECT_EQ(report.addresses.at(opened.destination), Address("10.1.0.1"));
  EXPECT_EQ(opened.local_qpn, 11u);
  EXPECT_EQ(opened.remote_qpn, 12u);
  EXPECT_EQ(opened.timeout_us, 67'108u);
  EXPECT_EQ(opened.repetitions, 7u);
  EXPECT_EQ(opened.max_paths, 4);
  EXPECT_FALSE(opened.movable);
  EXPECT_EQ(opened.source_port, 40'007);
  EXPECT_FALSE(opened.steered);
  EXPECT_EQ(opened.age_us, 2'000u);
  ASSERT_THAT(report.progress, SizeIs(1));
  EXPECT_EQ(report.progress[0].outstanding_bytes, kMiB);
}

TEST_F(FlowReportTest, AQueuePairThatTheControllerWantsIsReportedThoughItSendsNothing) {
  Sync();
  for (const std::uint64_t id : {1, 2}) Open(id, 0).local_qpn = 100 + static_cast<unsigned>(id);
  Live(20 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  wire::Heartbeat heartbeat;
  heartbeat.wanted = {{.address = Address("10.0.0.1"), .number = 102},
                      {.address = Address("10.0.0.9"), .number = 101}};
  bus_.Deliver(heartbeat, kController);
  Live(20 * kMs);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  ASSERT_THAT(reports[0].opened, SizeIs(1));
  EXPECT_EQ(reports[0].opened[0].local_qpn, 102U);
  Open(3, 0).local_qpn = 102;  // opened later, and not wanted any more
  Live(20 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(FlowReportTest, FlowThatHasSentEnoughBecomesAnElephant) {
  Sync();
  Open(1, 100);
  Live(20 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  source_.flows.at(wire::LocalFlowId(1)).sent_bytes = kMiB;
  Live(20 * kMs);
  EXPECT_THAT(Reports(), SizeIs(1));
}

TEST_F(FlowReportTest, ProgressIsReportedWhenItMatters) {
  Sync();
  Open(1, 160 * kMiB);
  Reports();
  Progress(1, 10 * kMiB);  // exactly 1/16
  Live(50 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  Progress(1, 1);
  Live(50 * kMs);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_THAT(reports[0].opened, IsEmpty());
  ASSERT_THAT(reports[0].progress, SizeIs(1));
  EXPECT_EQ(reports[0].progress[0].remaining_bytes, 150 * kMiB - 1);
}

TEST_F(FlowReportTest, RateOfABigFlowIsReportedEverySecond) {
  Sync();
  Open(1, std::uint64_t{1} << 40);
  Reports();
  for (int i = 0; i < 310; ++i) {
    Progress(1, 1'000'000);
    Live(10 * kMs);
  }
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(3));
  EXPECT_NEAR(static_cast<double>(reports[2].progress.at(0).achieved_bps), 8e8, 1e8);
  Live(kSecond);
  Reports();
  Live(5 * kSecond);  // stalled and silent since
  EXPECT_THAT(Reports(), IsEmpty());
}

TEST_F(FlowReportTest, ProgressIsRateLimitedButOpeningsAreNot) {
  Sync();
  Open(1, 1000 * kMiB);
  Reports();
  std::size_t with_progress = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {  // one millisecond each
    Progress(1, 8 * kMiB);
    Open(100 + i, 10 * kMiB);
    const auto reports = Reports();
    ASSERT_THAT(reports, SizeIs(1));
    EXPECT_THAT(reports[0].opened, SizeIs(1));
    if (reports[0].progress.size() > 1) ++with_progress;
    loop_.Advance(kMs);
    Reports();
  }
  EXPECT_LE(with_progress, 10u);
}

TEST_F(FlowReportTest, RateIsThatOfTheSentBytes) {
  Sync();
  Open(1, 1000 * kMiB);
  for (int i = 0; i < 100; ++i) {  // 1 MB a 10 ms: 800 Mbit/s
    Progress(1, 1'000'000);
    Step(10 * kMs);
  }
  const auto reports = Reports();
  ASSERT_FALSE(reports.empty());
  EXPECT_NEAR(static_cast<double>(reports.back().progress.at(0).achieved_bps), 8e8, 1e8);
}

TEST_F(FlowReportTest, FlowWithoutProgressIsStalledAndOneWithoutWorkIsIdle) {
  Sync();
  Open(1);
  Reports();
  Live(190 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  Live(30 * kMs);
  auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].progress[0].state, wire::FlowState::kStalled);
  Progress(1, 1);
  Live(20 * kMs);
  reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].progress[0].state, wire::FlowState::kActive);
  source_.flows.at(wire::LocalFlowId(1)).remaining_bytes = 0;
  Live(300 * kMs);
  reports = Reports();
  ASSERT_THAT(reports, SizeIs(2));
  EXPECT_EQ(reports[0].progress[0].remaining_bytes, 0U);
  EXPECT_EQ(reports[1].progress[0].state, wire::FlowState::kIdle);
}

TEST_F(FlowReportTest, BusyEdgesAreReportedAtTheNextLookEvenIfProgressHasToWait) {
  Sync();
  FlowSample& flow = Open(1, 0);
  flow.sent_bytes = kMiB;
  flow.edges = {.count = 2, .last = loop_.Now()};
  Live(20 * kMs);
  Open(2);
  Live(20 * kMs);
  Reports();
  Progress(2, 32 * kMiB);
  Live(10 * kMs);
  EXPECT_THAT(Reports(), SizeIs(1));  // the next report of progress is 10 ms later
  flow.edges = {.count = 3, .last = loop_.Now()};
  Live(4 * kMs);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  ASSERT_THAT(reports[0].progress, SizeIs(1));
  EXPECT_EQ(reports[0].progress[0].edges, 3U);
}

TEST_F(FlowReportTest, IdleEdgesWaitForALimitedTime) {
  Sync();
  FlowSample& flow = Open(1);
  Live(20 * kMs);
  Reports();
  flow.edges = {.count = 2, .last = loop_.Now()};
  Live(39 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  Live(4 * kMs);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  ASSERT_THAT(reports[0].progress, SizeIs(1));
  EXPECT_EQ(reports[0].progress[0].edges, 2U);
  EXPECT_EQ(reports[0].progress[0].state, wire::FlowState::kIdle);
  EXPECT_GE(reports[0].progress[0].edge_age_us, 40'000U);
  EXPECT_LE(reports[0].progress[0].edge_age_us, 43'000U);
}

TEST_F(FlowReportTest, IdleEdgesAreReportedWithAnythingElse) {
  Sync();
  FlowSample& flow = Open(1);
  Open(2, 0);
  source_.flows.at(wire::LocalFlowId(2)).sent_bytes = kMiB;
  source_.flows.at(wire::LocalFlowId(2)).edges = {.count = 2, .last = loop_.Now()};
  Live(20 * kMs);
  Reports();
  const TimePoint idle = loop_.Now();
  flow.edges = {.count = 2, .last = idle};
  Live(20 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  source_.flows.at(wire::LocalFlowId(2)).edges = {.count = 3, .last = loop_.Now()};
  Live(4 * kMs);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  ASSERT_THAT(reports[0].progress, SizeIs(2));
  EXPECT_EQ(reports[0].progress[0].edges, 2U);
  EXPECT_EQ(reports[0].progress[1].edges, 3U);
  // Both have their times.
  EXPECT_EQ(reports[0].progress[0].edge_age_us - reports[0].progress[1].edge_age_us, 20'000U);
}

TEST_F(FlowReportTest, IdleEdgesGoAheadOfTheBusyEdgeThatFollows) {
  Sync();
  FlowSample& flow = Open(1);
  Live(20 * kMs);
  Reports();
  flow.edges = {.count = 2, .last = loop_.Now()};
  Live(20 * kMs);
  EXPECT_THAT(Reports(), IsEmpty());
  flow.edges = {.count = 3, .last = loop_.Now(), .between = 20 * kMs};
  Live(4 * kMs);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(2));
  ASSERT_THAT(reports[0].progress, SizeIs(1));
  ASSERT_THAT(reports[1].progress, SizeIs(1));
  EXPECT_EQ(reports[1].sequence, reports[0].sequence + 1);
  EXPECT_EQ(reports[0].progress[0].edges, 2U);
  EXPECT_EQ(reports[0].progress[0].state, wire::FlowState::kIdle);
  EXPECT_EQ(reports[1].progress[0].edges, 3U);
  EXPECT_EQ(reports[0].progress[0].edge_age_us - reports[1].progress[0].edge_age_us, 20'000U);
}

TEST_F(FlowReportTest, EdgesThatTheSourceTellsHaveItsTimes) {
  Sync();
  FlowSample& flow = Open(1, 0);
  flow.sent_bytes = kMiB;
  flow.outstanding_bytes = 5;  // of requests without a completion
  flow.edges = {.count = 2, .last = loop_.Now()};
  Live(40 * kMs);
  auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].progress.at(0).edges, 2U);
  EXPECT_EQ(reports[0].progress.at(0).state, wire::FlowState::kIdle);
  flow.edges = {.count = 3, .last = loop_.Now() - std::chrono::microseconds(300)};
  Live(4 * kMs);
  reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].progress.at(0).edges, 3U);
  EXPECT_LE(reports[0].progress.at(0).edge_age_us, 2'300U);
  EXPECT_EQ(reports[0].progress.at(0).edge_age_us % 1'000, 300U);
}

TEST_F(FlowReportTest, EdgesThatCouldNotBeReportedArePartOfTheNextReport) {
  Sync();
  FlowSample& flow = Open(1);
  Live(20 * kMs);
  Reports();
  bus_.is_full = true;
  for (int i = 0; i < 2; ++i) {
    flow.remaining_bytes = 0;
    Live(20 * kMs);
    flow.remaining_bytes = kMiB;
    Live(20 * kMs);
  }
  bus_.is_full = false;
  Live(20 * kMs);
  const auto reports = Reports();
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports.back().progress.at(0).edges, 5U);
}

TEST_F(FlowReportTest, FlowsThatChangeTooOftenAreFewEdges) {
  Sync();
  for (std::uint64_t id = 1; id <= 16; ++id) Open(id);
  Live(20 * kMs);
  Reports();
  std::size_t edges = 0;
  std::map<wire::LocalFlowId, std::uint32_t> known;
  for (int i = 0; i < 5'000; ++i) {
    for (auto& [id, flow] : source_.flows) {
      flow.remaining_bytes = i % 20 < 2 ? kMiB : 0;  // 2 of 20 ms: 100 edges a second
    }
    Live(kMs);
    for (const wire::FlowReport& report : Reports()) {
      for (const wire::FlowProgress& flow : report.progress) {
        edges += known[flow.id] == flow.edges ? 0 : 1;
        known[flow.id] = flow.edges;
        if (i > 2'500) {
          EXPECT_NEAR(flow.duty_permille, 100, 50);
        }
      }
    }
  }
  EXPECT_LE(edges, 16U * 23);
}

TEST_F(FlowReportTest, DifferencesAreCutAndFullReportsAreNot) {
  Sync();
  for (std::uint64_t id = 1; id <= 3000; ++id) {
    source_.flows[wire::LocalFlowId(id)] = {.id = wire::LocalFlowId(id),
                                            .job = "a",
                                            .source = Address("10.0.0.1"),
                                            .destination = Address("10.1.0.1"),
                                            .first_seen = {},
                                            .remaining_bytes = 2 * kMiB};
  }
  Changed();
  auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(3));
  EXPECT_THAT(reports[0].opened, SizeIs(1024));
  EXPECT_THAT(reports[0].progress, SizeIs(1024));
  EXPECT_THAT(reports[2].opened, SizeIs(3000 - 2048));
  EXPECT_EQ(reports[2].sequence, reports[0].sequence + 2);
  Welcome();
  reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_TRUE(reports[0].full);
  EXPECT_THAT(reports[0].opened, SizeIs(3000));
  source_.flows.clear();
  Changed();
  reports = Reports();
  ASSERT_THAT(reports, SizeIs(3));
  EXPECT_THAT(reports[0].ended, SizeIs(1024));
}

TEST_F(FlowReportTest, ElephantsBeyondTheLimitStayUnreported) {
  Sync({.meter = {.max_elephants = 2}});
  for (std::uint64_t id = 1; id <= 4; ++id) Open(id);
  std::size_t opened = 0;
  for (const wire::FlowReport& report : Reports()) opened += report.opened.size();
  EXPECT_EQ(opened, 2u);
  End(1);
  Live(20 * kMs);
  const auto reports = Reports();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_THAT(reports[0].ended, ElementsAre(wire::LocalFlowId(1)));
  EXPECT_THAT(reports[0].opened, SizeIs(1));
}

TEST_F(FlowReportTest, StrangeProgressIsSurvived) {
  Sync();
  Open(1);
  std::mt19937_64 random(3);
  FlowSample& flow = source_.flows.at(wire::LocalFlowId(1));
  for (int i = 0; i < 500; ++i) {
    flow.remaining_bytes = random() >> 1;
    flow.outstanding_bytes = random() >> 1;
    flow.sent_bytes = random() >> 1;
    flow.retries = static_cast<std::uint32_t>(random());
    Live(10 * kMs);
  }
  EXPECT_FALSE(Reports().empty());
}

// A controller that applies all reports knows the flows of the source.
TEST_F(FlowReportTest, ReportsAddUpToTheFlowsThereAre) {
  std::mt19937_64 random(5);
  Sync();
  std::map<wire::LocalFlowId, std::uint64_t> known;
  std::uint64_t next_id = 1;
  for (int step = 0; step < 500; ++step) {
    switch (random() % 5) {
      case 0:
      case 1:
        Open(next_id++, kMiB + random() % (100 * kMiB));
        break;
      case 2:
        if (!source_.flows.empty()) End(source_.flows.begin()->first.value());
        break;
      case 3:
        if (!source_.flows.empty()) {
          FlowSample& flow = std::prev(source_.flows.end())->second;
          flow.sent_bytes += flow.remaining_bytes / 2;
          flow.remaining_bytes -= flow.remaining_bytes / 2;
        }
        break;
      default:
        bus_.is_full = random() % 4 == 0;
    }
    Live(20 * kMs);
    if (!bus_.is_full) Live(20 * kMs);
    for (const wire::FlowReport& report : Reports()) {
      if (report.full) known.clear();
      for (const auto& opened : report.opened) EXPECT_TRUE(known.emplace(opened.id, 0).second);
      for (const auto& progress : report.progress) {
        known.at(progress.id) = progress.remaining_bytes;
      }
      for (const auto& ended : report.ended) EXPECT_EQ(known.erase(ended), 1u);
    }
    if (bus_.is_full) continue;
    ASSERT_EQ(known.size(), source_.flows.size()) << "step " << step;
    for (const auto& [id, remaining] : known) {
      const std::uint64_t actual = source_.flows.at(id).remaining_bytes;
      EXPECT_LE(std::max(actual, remaining) - std::min(actual, remaining), remaining / 16);
    }
  }
}

}  // namespace
}  // namespace espalier::agent
