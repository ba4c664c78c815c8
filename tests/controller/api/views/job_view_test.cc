#include "controller/api/views/job_view.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/controller/api/live_api_fixture.h"

namespace espalier::controller {
namespace {

class JobViewTest : public LiveApiTest {
 protected:
  std::uint32_t JobOf(int host, std::uint64_t flow) { return cluster_.FlowOf(host, flow).job; }
  bool Shows(std::uint32_t job) {
    const State& state = cluster_.state();
    return ShowsJob(state, cluster_.controller().Now(), job, FlowStatistics::Take(state));
  }
  std::string Live() {
    const State& state = cluster_.state();
    return LiveJobs(state, cluster_.controller().Now(), FlowStatistics::Take(state));
  }
  void Progress(int host, std::uint64_t flow, std::uint64_t remaining, std::uint64_t bps) {
    wire::FlowReport report;
    report.progress = {
        {.id = wire::LocalFlowId(flow), .remaining_bytes = remaining, .achieved_bps = bps}};
    cluster_.Report(host, report);
    cluster_.Settle();
  }
};

TEST_F(JobViewTest, TimesTheRoundsOfAJobAgainstTheIdeal) {
  const auto progress = [&](int host, std::uint64_t id, std::uint64_t remaining) {
    wire::FlowReport report;
    report.progress = {{.id = wire::LocalFlowId(id), .remaining_bytes = remaining}};
    cluster_.Report(host, report);
    cluster_.Settle();
  };
  progress(0, 5, 0);  // of what it began with
  cluster_.Advance(std::chrono::milliseconds(100));
  for (int round = 0; round < 3; ++round) {
    progress(0, 5, 12'500'000);  // 1 ms at 100 Gbit/s
    cluster_.Advance(std::chrono::milliseconds(4));
    progress(0, 5, 0);
    cluster_.Advance(std::chrono::milliseconds(10));  // a pause within the round
    progress(0, 5, 12'500'000);
    cluster_.Advance(std::chrono::milliseconds(6));
    progress(0, 5, 0);
    cluster_.Advance(std::chrono::milliseconds(100));
  }
  const JsonValue jobs = Parse(Call("GET", "/api/v1/jobs").body);
  const JsonValue& job = jobs.Find("jobs")->items[0];
  EXPECT_EQ(job.Find("job")->text, "A");
  EXPECT_EQ(job.Find("rounds")->text, "4");
  EXPECT_FALSE(job.Find("in_round")->boolean);
  const JsonValue& last = job.Find("history")->items.back();
  EXPECT_NEAR(std::stod(last.Find("ideal_seconds")->text), 0.002, 1e-6);
  EXPECT_NEAR(std::stod(last.Find("seconds")->text), 0.020, 0.001);
}

// Groups that never agree on a round, or a flow that never pauses.
TEST_F(JobViewTest, SaysWhyAJobHasNoRounds) {
  const auto note = [&] {
    return Parse(Call("GET", "/api/v1/jobs").body).Find("jobs")->items[0].Find("rounds_note")->text;
  };
  Progress(0, 5, 1'000'000, 0);
  EXPECT_EQ(note(), "");
  cluster_.Advance(JobRounds::kPast + std::chrono::seconds(1));
  EXPECT_EQ(note(),
            "a group of its flows has not paused for more than a minute, so no round of it "
            "has ended");
  Progress(0, 5, 0, 0);
  cluster_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(note(), "");
}

TEST_F(JobViewTest, AJobIsShownForTenMinutesAfterItsLastRound) {
  const std::uint32_t job = JobOf(0, 5);
  EXPECT_TRUE(Shows(job));
  Progress(0, 5, 12'500'000, 0);
  cluster_.Advance(std::chrono::milliseconds(4));
  Progress(0, 5, 0, 0);
  cluster_.End(0, 5);
  cluster_.Advance(std::chrono::seconds(2));
  EXPECT_TRUE(Shows(job)) << "it has had a round";
  cluster_.Advance(std::chrono::minutes(9));
  EXPECT_TRUE(Shows(job));
  EXPECT_EQ(Parse(Live()).items.size(), 2U);
  cluster_.Advance(std::chrono::minutes(2));
  EXPECT_FALSE(Shows(job));
  EXPECT_EQ(Parse(Live()).items.size(), 1U) << "the other has a flow";
}

TEST_F(JobViewTest, LiveJobsShowOnlyRatesThatDifferByAnEighth) {
  Progress(0, 5, 1'000'000, 50'000'000'000);
  const std::string before = Live();
  Progress(0, 5, 1'000'000, 50'100'000'000);
  EXPECT_EQ(Live(), before);
  Progress(0, 5, 1'000'000, 64'000'000'000);
  EXPECT_NE(Live(), before);
  const State& state = cluster_.state();
  const JsonValue exact =
      Parse(JobView(state, cluster_.controller().Now(), JobOf(0, 5), FlowStatistics::Take(state)));
  EXPECT_EQ(exact.Find("achieved_bps")->text, "64000000000");
  EXPECT_EQ(exact.Find("flows_routed")->text, "1");
  EXPECT_EQ(exact.Find("max_link_flows")->text, "1");
}

}  // namespace
}  // namespace espalier::controller
