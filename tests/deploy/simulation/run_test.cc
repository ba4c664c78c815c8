#include "deploy/simulation/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/base/log.h"
#include "deploy/simulation/scenario_file.h"
#include "tests/seeds.h"

namespace espalier::simulation {
namespace {

using namespace std::chrono_literals;

// Nine hosts under three leaves, in rings over the leaves, for this long and with these actions.
Scenario Make(const std::string& seconds, const std::string& actions,
              const std::string& members = "") {
  const auto scenario = ParseScenario(
      R"({"leaf_spine": {"spines": 3, "leaves": 3, "hosts_per_leaf": 3}, "duration_seconds": )" +
          seconds + ", " + members + R"("jobs": [{"id": "A", "start_seconds": 1,
          "period_seconds": "0.1", "compute_seconds": "0.02", "jitter_percent": 2, "rings": [
            {"hosts": ["h0", "h3", "h6"], "bytes": 200000000},
            {"hosts": ["h1", "h4", "h7"], "bytes": 200000000},
            {"hosts": ["h2", "h5", "h8"], "bytes": 200000000}]}],
          "actions": [)" +
          actions + "]}",
      "s", [](const std::string& name) { return Fail(ErrorCode::kNotFound, name); });
  EXPECT_TRUE(scenario) << scenario.error().message;
  return *scenario;
}

RunResult Play(const Scenario& scenario, std::uint64_t seed = 1) {
  SetLogLevel(LogLevel::kError);
  return RunScenario(scenario, {.seed = seed, .is_cancelled = {}, .on_time = {}}).value();
}

std::int64_t Count(const RunResult& result, const std::string& kind) {
  return std::ranges::count(result.events, kind, &RunEvent::kind);
}

TEST(Run, SteersRingsApart) {
  for (const std::uint64_t seed : SeedsToTry(1, 3)) {
    SCOPED_TRACE(seed);
    const RunResult result = Play(Make("4", ""), seed);
    EXPECT_TRUE(result.violations.empty()) << result.violations.front();
    const JobResult& job = result.jobs.at(0);
    EXPECT_NEAR(SecondsOf(job.ideal), 0.021333, 1e-5);  // 4 rounds of 66,666,667 bytes
    ASSERT_GE(job.communication.size(), 25U);
    for (std::size_t i = job.communication.size() / 2; i < job.communication.size(); ++i) {
      EXPECT_LE(job.communication[i], job.ideal * 101 / 100) << i;
      EXPECT_EQ(job.ports_changed[i], 0) << i;
    }
    EXPECT_GT(result.probes, 0);
    EXPECT_GT(result.path_changes.by_reason.at(wire::PathReason::kAssigned), 0);
    EXPECT_GE(result.loaded_link_connections, 1);
    EXPECT_GT(result.callbacks, 1000U);
  }
}

// Without a controller the rings collide on some link, unless the hashes happen to fit.
TEST(Run, EcmpIsSlower) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const RunResult result = Play(Make("3", "", R"("mode": "ecmp",)"), seed);
    EXPECT_EQ(result.pushes, 0);
    EXPECT_EQ(result.path_changes.Total(), 0);
    const JobResult& job = result.jobs.at(0);
    EXPECT_GT(*std::ranges::max_element(job.communication), job.ideal * 19 / 10);
  }
}

TEST(Run, TheSameSeedGivesTheSameResult) {
  const Scenario scenario =
      Make("6", R"({"at_seconds": 2, "do": "link-down", "link": "leaf0--spine1"},
                   {"at_seconds": 3, "do": "controller-down"},
                   {"at_seconds": 4, "do": "controller-up"})",
           R"("messages": {"loss_percent": 5, "jitter_us": 2000},)");
  const RunResult first = Play(scenario, 7);
  const RunResult again = Play(scenario, 7);
  EXPECT_EQ(first.trace, again.trace);
  EXPECT_EQ(first.callbacks, again.callbacks);
  EXPECT_EQ(first.jobs.at(0).communication, again.jobs.at(0).communication);
  ASSERT_EQ(first.events.size(), again.events.size());
  for (std::size_t i = 0; i < first.events.size(); ++i) {
    EXPECT_EQ(first.events[i].at, again.events[i].at) << i;
    EXPECT_EQ(first.events[i].text, again.events[i].text) << i;
  }
  EXPECT_NE(Play(scenario, 8).trace, first.trace);
}

TEST(Run, ADeadLinkIsLeftAndTheJobGoesOn) {
  const RunResult result =
      Play(Make("12", R"({"at_seconds": 3, "do": "link-down", "link": "leaf0--spine1"})"));
  EXPECT_TRUE(result.violations.empty()) << result.violations.front();
  const FaultRecord& record = result.faults.at(Fault::kStandsStill);
  EXPECT_GE(record.most, 1U);
  EXPECT_GT(record.longest, 0s);
  EXPECT_EQ(record.lasting, 0U);
  EXPECT_GE(result.local_reroutes, 1);
  EXPECT_GE(result.path_changes.by_reason.at(wire::PathReason::kPathDead), 1);
  EXPECT_EQ(Count(result, "action"), 1);
  EXPECT_GE(result.jobs.at(0).communication.size(), 60U);
}

TEST(Run, OperatorsActionsAreAnswered) {
  const RunResult result =
      Play(Make("6", R"({"at_seconds": 2, "do": "fail", "link": "leaf0--spine1"},
                        {"at_seconds": 3, "do": "fail", "link": "leaf0--spine1"},
                        {"at_seconds": 3, "do": "drain", "node": "spine2"},
                        {"at_seconds": 4, "do": "recompute"})"));
  EXPECT_TRUE(result.violations.empty()) << result.violations.front();
  EXPECT_EQ(Count(result, "action"), 4);
  EXPECT_EQ(Count(result, "action_done"), 3);
  EXPECT_EQ(Count(result, "action_refused"), 1);  // it has failed already
  EXPECT_TRUE(std::ranges::is_sorted(result.events, {}, &RunEvent::at));
  // One spine is left for what leaves leaf0.
  EXPECT_GE(result.loaded_link_connections, 3);
}

TEST(Run, ARestartOfTheControllerMovesNothing) {
  const RunResult result = Play(Make("12", R"({"at_seconds": 4, "do": "controller-down"},
                                              {"at_seconds": 7, "do": "controller-up"})"));
  EXPECT_TRUE(result.violations.empty()) << result.violations.front();
  const JobResult& job = result.jobs.at(0);
  for (std::size_t i = 25; i < job.communication.size(); ++i) {
    EXPECT_EQ(job.ports_changed[i], 0) << i;
    EXPECT_LE(job.communication[i], job.ideal * 101 / 100) << i;
  }
  EXPECT_EQ(result.path_changes.to_ecmp, 0);
}

TEST(Run, ARehashIsFoundAndRepaired) {
  const RunResult result =
      Play(Make("25", R"({"at_seconds": 4, "do": "rehash", "node": "leaf0", "seed": 99})"));
  EXPECT_TRUE(result.violations.empty()) << result.violations.front();
  EXPECT_GE(result.faults.at(Fault::kOtherPath).most, 1U);
  EXPECT_GE(result.mismatches, 1);
  EXPECT_EQ(result.faults.at(Fault::kOtherPath).lasting, 0U);
}

TEST(Run, AgentsAndMessagesFail) {
  const RunResult result = Play(Make("12", R"({"at_seconds": 2, "do": "agent-down", "host": "h0"},
                         {"at_seconds": 3, "do": "partition", "host": "h1"},
                         {"at_seconds": 4, "do": "messages", "loss_percent": 30},
                         {"at_seconds": 6, "do": "messages"},
                         {"at_seconds": 6, "do": "heal", "host": "h1"},
                         {"at_seconds": 7, "do": "agent-up", "host": "h0"})"));
  EXPECT_TRUE(result.violations.empty()) << result.violations.front();
  EXPECT_GT(result.messages.lost, 0U);
  EXPECT_GE(Count(result, "agent_gone"), 1);
}

// ECMP does not learn of a dead link further away, so flows stand still for ever.
TEST(Run, NamesFlowsThatStandStillAlthoughThereIsAPath) {
  const RunResult result = Play(
      Make("5", R"({"at_seconds": 2, "do": "link-down", "node": "spine0"})", R"("mode": "ecmp",)"));
  // A whole spine: its neighbours notice and hash over the others.
  EXPECT_TRUE(result.violations.empty());
  const RunResult far = Play(Make("5", R"({"at_seconds": 2, "do": "link-down",
                                           "link": "leaf0--spine0"},
                                          {"at_seconds": 2, "do": "link-down",
                                           "link": "leaf0--spine1"})",
                                  R"("mode": "ecmp",)"));
  ASSERT_FALSE(far.violations.empty());
  EXPECT_NE(far.violations.front().find("stands still"), std::string::npos);
  EXPECT_GT(far.jobs.at(0).unfinished, 1s);
}

TEST(Run, NoPathIsNoViolationWhereTheFabricHasNone) {
  const RunResult result =
      Play(Make("5", R"({"at_seconds": 2, "do": "link-down", "node": "leaf0"})"));
  EXPECT_TRUE(result.violations.empty()) << result.violations.front();
  EXPECT_GT(result.jobs.at(0).unfinished, 1s);
}

TEST(Run, EndsWhenItIsCancelled) {
  int asked = 0;
  const auto result = RunScenario(
      Make("60", ""), {.seed = 1, .is_cancelled = [&] { return ++asked == 10; }, .on_time = {}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(asked, 10);
}

// The examples of the documents run without a violation, and at the end nothing shares a link.
TEST(Examples, KeepTheInvariants) {
  for (const char* name :
       {"deploy/simulation/examples/phases.json", "deploy/simulation/examples/failures.json"}) {
    const auto scenario = ReadScenario(std::string(ESPALIER_SOURCE_DIR) + "/" + name);
    ASSERT_TRUE(scenario) << scenario.error().message;
    for (const std::uint64_t seed : SeedsToTry(1, 3)) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      const RunResult result = Play(*scenario, seed);
      EXPECT_TRUE(result.violations.empty()) << result.violations.front();
      EXPECT_EQ(Count(result, "action"), static_cast<std::int64_t>(scenario->actions.size()));
      for (const JobResult& job : result.jobs) {
        ASSERT_GE(job.communication.size(), 10U);
        EXPECT_LE(job.communication.back(), job.ideal * 105 / 100) << job.id;
      }
    }
  }
}

// Three jobs on links oversubscribed 2:1: what matters is which connections share a link, and when.
TEST(Examples, PhasesGainWhereLinksMustBeShared) {
  auto scenario = ReadScenario(ESPALIER_SOURCE_DIR "/deploy/simulation/examples/bloom.json");
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto seconds_in = [&](Mode mode) {
    scenario->mode = mode;
    const RunResult result = Play(*scenario);
    EXPECT_TRUE(result.violations.empty()) << result.violations.front();
    double seconds = 0;  // of a mean period in the second half, all jobs
    for (const JobResult& job : result.jobs) {
      const std::size_t periods = job.communication.size();
      const std::size_t half = periods / 2;
      for (std::size_t i = half; i < periods; ++i) {
        seconds += SecondsOf(job.communication[i]) / static_cast<double>(periods - half);
      }
    }
    return seconds;
  };
  const double connections = seconds_in(Mode::kConnections);
  EXPECT_LT(seconds_in(Mode::kEspalier), 0.9 * connections);
  EXPECT_LT(connections, seconds_in(Mode::kEcmp));
}

}  // namespace
}  // namespace espalier::simulation
