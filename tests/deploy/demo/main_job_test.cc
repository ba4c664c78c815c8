#include "deploy/demo/main_job.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"
#include "tests/studies/lab/damaged_run.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

// A 4x4x4 lab. Times are printed, not asserted.
class MainJobTest : public LiveLabTest {
 protected:
  static constexpr int kSeed = 1;

  void SetUp() override { StartFabric(/*ipv6=*/false); }

  void StartFabric(bool ipv6) {
    StartLab({.link_rate = BitsPerSecond{50'000'000}, .seed = kSeed, .ipv6 = ipv6});
  }

  // The path and port of every steered flow, such as "h0 > h4": "spine2 port 50000".
  std::map<std::string, std::string> SteeredFlows() const {
    std::map<std::string, std::string> flows;
    const auto answer = daemons_->Get("/api/v1/flows");
    if (!answer) return flows;
    for (const io::JsonValue& flow : answer->Find("flows")->items) {
      if (flow.Find("status")->text != "ROUTED") continue;
      flows[flow.Find("source")->text + " > " + flow.Find("destination")->text] =
          fmt::format("{} port {}", flow.Find("via")->text, flow.Find("source_port")->text);
    }
    return flows;
  }

  std::map<std::string, std::string> AwaitSteeredFlows(std::size_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    auto flows = SteeredFlows();
    while (flows.size() < count && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
      flows = SteeredFlows();
    }
    return flows;
  }

  // The number of flows that have ended, when none is open any more, and so many or more have.
  std::size_t AwaitEndedFlows(std::size_t least) const {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    std::size_t count = 0;
    while (std::chrono::steady_clock::now() < deadline) {
      const auto open = daemons_->Get("/api/v1/flows");
      const auto ended = daemons_->Get("/api/v1/flows/ended");
      if (ended) count = ended->Find("flows")->items.size();
      if (open && open->Find("flows")->items.empty() && count >= least) break;
      std::this_thread::yield();
    }
    return count;
  }

  std::string GbpsOf(const std::string& link) const {
    const auto answer = daemons_->Get("/api/v1/links");
    if (!answer) return "";
    for (const io::JsonValue& shown : answer->Find("links")->items) {
      if (shown.Find("id")->text == link) return shown.Find("gbps")->text;
    }
    return "";
  }

  // The controller's estimate of the time of a job's finished rounds without contention.
  double IdealSeconds(const std::string& name) const {
    const auto answer = daemons_->Get("/api/v1/jobs");
    if (!answer) return 0;
    double seconds = 0;
    for (const io::JsonValue& job : answer->Find("jobs")->items) {
      if (job.Find("job")->text != name) continue;
      for (const io::JsonValue& round : job.Find("history")->items) {
        seconds += std::stod(round.Find("ideal_seconds")->text);
      }
    }
    return seconds;
  }

  double AwaitIdealSeconds(const std::string& name) const {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    double seconds = IdealSeconds(name);
    while (seconds == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
      seconds = IdealSeconds(name);
    }
    return seconds;
  }
};

class MainJobOverIpv6Test : public MainJobTest {
 protected:
  void SetUp() override { StartFabric(/*ipv6=*/true); }
};

void Print(const MeasuredRun& run, const Experiment& experiment) {
  fmt::print("{:<9} slowest flow {:.2f} s (ideal {:.2f} s), worst link {:g} flows\n",
             run.figures.scheme, run.figures.slowest_flow_seconds,
             experiment.ideal.slowest_flow_seconds, run.figures.max_link_flows);
}

TEST_F(MainJobTest, SteersCollidingFlowsApart) {
  for (const auto& make : {MakePermutation(lab_->layout()), MakeTwoRings(lab_->layout(), 1)}) {
    ASSERT_TRUE(make.has_value());
    const Experiment& experiment = *make;
    daemons_.reset();
    const auto ecmp = RunMeasured(*lab_, experiment, kSeed, nullptr);
    ASSERT_TRUE(ecmp.has_value()) << ecmp.error().message;
    Print(*ecmp, experiment);
    EXPECT_TRUE(ecmp->completed);
    EXPECT_GE(ecmp->figures.max_link_flows, 2);  // these ports collide in this fabric

    StartDaemons();
    const auto steered = RunMeasured(*lab_, experiment, kSeed, &*daemons_);
    ASSERT_TRUE(steered.has_value()) << steered.error().message;
    Print(*steered, experiment);
    EXPECT_TRUE(steered->completed);
    EXPECT_EQ(steered->figures.max_link_flows, 1);
    EXPECT_EQ(steered->steered_flows, 16);
    EXPECT_EQ(steered->mismatches, 0);
    // An edge of a ring announces the rest of its epoch in each round, but counts once. Bytes from
    // before the first report do not count.
    for (const auto& [job, seconds] : experiment.ideal.allreduce_seconds) {
      EXPECT_LT(AwaitIdealSeconds(job), 1.02 * seconds) << job;
      EXPECT_GT(AwaitIdealSeconds(job), 0.5 * seconds) << job;
    }
  }
}

TEST_F(MainJobOverIpv6Test, SteersCollidingFlowsApart) {
  StartDaemons();
  const auto permutation = MakePermutation(lab_->layout());
  ASSERT_TRUE(permutation.has_value());
  const auto steered = RunMeasured(*lab_, *permutation, kSeed, &*daemons_);
  ASSERT_TRUE(steered.has_value()) << steered.error().message;
  Print(*steered, *permutation);
  EXPECT_TRUE(steered->completed);
  EXPECT_EQ(steered->figures.max_link_flows, 1);
  EXPECT_EQ(steered->steered_flows, 16);
  EXPECT_EQ(steered->mismatches, 0);
}

// All of `lab_study damage` that is not silent loss, in one run.
TEST_F(MainJobTest, EndsBesideUnknownFlowsAndMiceWithALinkAtHalfRate) {
  StartDaemons();
  const auto figures = RunWithDamage(*lab_,
                                     {.damage = Damage::kHalfRateBefore,
                                      .unknown_percent = 10,
                                      .mice_percent = 20,
                                      .paths = 4,
                                      .feeds_loads = true},
                                     kSeed, &*daemons_);
  ASSERT_TRUE(figures.has_value()) << figures.error().message;
  EXPECT_EQ(figures->hanging_flows, 0);
  EXPECT_EQ(figures->unknown_flows, 2);
  EXPECT_EQ(figures->mice, 16 * 25);
  EXPECT_NEAR(figures->ideal_seconds, 8 * 8.0 / 50 / (3.5 / 4), 1e-9);
  EXPECT_GT(figures->slowest_known_seconds, 0.5 * figures->ideal_seconds);
  EXPECT_GE(figures->slowest_seconds, figures->slowest_known_seconds);
  EXPECT_GT(figures->mice_p99_seconds, 0);
  // The controller has heard of the other 14 flows, of no mouse, of the rate and of loads.
  EXPECT_EQ(AwaitEndedFlows(14), 14U);
  EXPECT_EQ(GbpsOf("leaf0--spine0"), "0.025");
  EXPECT_EQ(GbpsOf("leaf0--spine1"), "0.05");
  EXPECT_EQ(Events("background_feed_started", "").size(), 1U);
}

TEST_F(MainJobTest, OutlivesItsControllerAndRemembersTheFailedLink) {
  StartDaemons();
  const auto rings = MakeTwoRings(lab_->layout(), 8);
  ASSERT_TRUE(rings.has_value());
  std::map<std::string, std::string> before;
  std::map<std::string, std::string> after;
  std::string state_after;
  bool done = false;
  lab::TrafficOptions options{.seed = kSeed, .use_agents = true, .time_limit = 240s};
  options.on_running = [&](std::chrono::nanoseconds) {
    if (std::exchange(done, true)) return;
    AwaitSteeredFlows(16);
    ASSERT_TRUE(daemons_->Post("/api/v1/links/fail?id=leaf3--spine1").has_value());
    ASSERT_TRUE(daemons_->AwaitAcknowledged(30s).has_value());
    before = AwaitSteeredFlows(16);
    daemons_->KillController();
    const auto restarted = daemons_->StartController();
    ASSERT_TRUE(restarted.has_value()) << restarted.error().message;
    after = AwaitSteeredFlows(16);
    const auto links = daemons_->Get("/api/v1/links");
    ASSERT_TRUE(links.has_value());
    for (const io::JsonValue& link : links->Find("links")->items) {
      if (link.Find("id")->text == "leaf3--spine1") state_after = link.Find("state")->text;
    }
  };
  const auto result = lab::RunTraffic(*lab_, rings->workload, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->completed);
  for (const lab::FlowOutcome& flow : result->flows) EXPECT_TRUE(flow.IsWhole()) << flow.plan.id;
  EXPECT_EQ(before.size(), 16U);
  EXPECT_EQ(after, before);
  EXPECT_EQ(state_after, "DOWN");
}

}  // namespace
}  // namespace espalier::demo
