// The failure of a far link in the middle of a job: what moves, and what the job loses, for each
// way in which the controller learns of it. Times are printed, not asserted.
#include "deploy/demo/failover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"

namespace espalier::demo {
namespace {

struct Case {
  std::string name;
  std::optional<Detection> detection;  // none: no failure
  bool plan_ahead = true;
};

class FailoverTest : public LiveLabTest {
 protected:
  static constexpr int kSeed = 1;

  void SetUp() override { StartLab({.link_rate = BitsPerSecond{50'000'000}, .seed = kSeed}); }

  void Start(const Case& setting) { StartDaemons(setting.plan_ahead ? "" : "plan_ahead: false\n"); }

  // Runs a job that leaves a path for every flow once; returns the total seconds of its figures.
  FailureFigures RunOnce(const Case& setting, int epochs) {
    FailureFigures figures;
    const auto job = MakeRingsWithRoom(lab_->layout(), epochs);
    if (!job) ADD_FAILURE() << job.error().message;
    if (!job) return figures;
    if (!setting.detection) {
      const lab::TrafficOptions options{.seed = kSeed, .use_agents = true};
      const auto result = lab::RunTraffic(*lab_, job->workload, options);
      EXPECT_TRUE(result.has_value() && result->completed);
      if (result) figures.seconds = result->seconds;
      return figures;
    }
    const auto failure = RunWithFailure(*lab_, *job, kSeed, *daemons_, *setting.detection);
    if (!failure) ADD_FAILURE() << setting.name << ": " << failure.error().message << Events();
    if (!failure) return figures;
    EXPECT_GT(failure->flows_on_link, 0);
    EXPECT_EQ(failure->dead_flows, 0);
    EXPECT_TRUE(failure->job_completed);
    // A host may reroute locally (acknowledgements come back over the dead link) onto the path of
    // another flow. There is a path for each, so the controller must make room.
    EXPECT_GT(failure->polls, 0);
    EXPECT_LE(2 * failure->polls_with_shared_link, failure->polls)
        << setting.name << ": two flows share a link, and nobody makes room" << Events();
    return *failure;
  }
};

TEST_F(FailoverTest, MovesFlowsOnTheOperatorsWord) {
  Start({});
  const FailureFigures failure = RunOnce({"operator", Detection::kOperator}, 3);
  fmt::print("{}: {} flows moved in {:.3f} s\n", failure.link, failure.flows_moved,
             failure.seconds_to_move);
  // On such a busy machine hosts may be first.
  const bool hosts_were_first = failure.moved_by_operator != failure.flows_on_link;
  EXPECT_EQ(Events("link_detected_down", "").size(), hosts_were_first ? 1U : 0U);
}

TEST_F(FailoverTest, MovesFlowsOnTheWordOfTheSwitches) {
  Start({});
  const FailureFigures failure = RunOnce({"feed", Detection::kFeed}, 3);
  fmt::print("{}: {} flows moved in {:.3f} s\n", failure.link, failure.flows_moved,
             failure.seconds_to_move);
  EXPECT_EQ(Events("link_detected_down", "link=" + failure.link + " why=feed").size(), 1U);
  EXPECT_EQ(Events("link_detected_down", "").size(), 1U);
}

TEST_F(FailoverTest, MovesFlowsWhenNobodySaysAnything) {
  Start({});
  const FailureFigures failure = RunOnce({"hosts", Detection::kHosts}, 3);
  fmt::print("{}: {} flows moved in {:.3f} s\n", failure.link, failure.flows_moved,
             failure.seconds_to_move);
  // The affected host reroutes locally, hosts test the links of the path, and the dead one is
  // found.
  EXPECT_GE(Events("flow_locally_rerouted", "").size(), 1U);
  EXPECT_EQ(Events("link_detected_down", "link=" + failure.link + " why=tests").size(), 1U);
  EXPECT_EQ(Events("link_detected_down", "").size(), 1U);
}

// Every flow continues and the job ends, for each way of detection, with and without failure plans
// (RunOnce checks it). Prints the table of what the job loses in docs/lab.md.
using LongFailoverTest = FailoverTest;

TEST_F(LongFailoverTest, TellsWhatAJobLoses) {
  const std::vector<Case> cases = {{"nothing fails", std::nullopt},
                                   {"operator", Detection::kOperator},
                                   {"operator, no plans", Detection::kOperator, false},
                                   {"feed", Detection::kFeed},
                                   {"feed, no plans", Detection::kFeed, false},
                                   {"hosts", Detection::kHosts},
                                   {"hosts, no plans", Detection::kHosts, false}};
  constexpr int kRounds = 5;
  std::vector<std::vector<double>> seconds(cases.size());
  std::vector<std::vector<double>> to_move(cases.size());
  std::vector<std::vector<double>> shared(cases.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Start(cases[i]);
      const FailureFigures figures = RunOnce(cases[i], 3);
      seconds[i].push_back(figures.seconds);
      to_move[i].push_back(figures.seconds_to_move);
      shared[i].push_back(figures.polls_with_shared_link / std::max(1.0, 1.0 * figures.polls));
    }
  }
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  const double without = median(seconds[0]);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    fmt::print(
        "{:<20} run {:.2f} s, lost {:+.2f} s, moved after {:.3f} s ({:.2f} s; of the time"
        " after that with two flows on a link {:.0f} %)\n",
        cases[i].name, median(seconds[i]), median(seconds[i]) - without, median(to_move[i]),
        fmt::join(seconds[i], ", "), 100 * median(shared[i]));
  }
}

}  // namespace
}  // namespace espalier::demo
