#include "controller/planning/periodic_work.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/sim/sim_world.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

// How often each task has run, by the metrics that operators scrape.
std::map<std::string, int> RunsIn(const std::string& metrics) {
  const std::string begin = "espalier_controller_periodic_seconds_count{task=\"";
  std::map<std::string, int> runs;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(begin)) continue;
    const std::size_t end = line.find('"', begin.size());
    runs[line.substr(begin.size(), end - begin.size())] = std::stoi(line.substr(end + 3));
  }
  return runs;
}

class PeriodicTasks : public testing::Test {
 protected:
  // Notes the task and the milliseconds since the beginning.
  PeriodicWork::Task TaskOf(Duration interval, const std::string& name) {
    return {interval, name, [this, name] {
              runs_.push_back(name + std::to_string((world_.Now() - begin_) / 1ms));
            }};
  }

  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  const TimePoint begin_ = world_.Now();
  Metrics metrics_;
  std::vector<std::string> runs_;
};

TEST_F(PeriodicTasks, RunAtTheirIntervalsInTheOrderOfTheTable) {
  PeriodicWork work(*loop_, {TaskOf(200ms, "b"), TaskOf(100ms, "a")}, metrics_);
  world_.RunFor(1s);
  EXPECT_TRUE(runs_.empty()) << "before the start";
  work.Start();
  world_.RunFor(399ms);
  EXPECT_EQ(runs_, (std::vector<std::string>{"b1100", "a1100", "a1200", "b1300", "a1300"}));
  EXPECT_EQ(RunsIn(metrics_.Text()), (std::map<std::string, int>{{"a", 3}, {"b", 2}}));
}

TEST_F(PeriodicTasks, EndWithTheirTable) {
  auto work = std::make_unique<PeriodicWork>(
      *loop_, std::vector<PeriodicWork::Task>{TaskOf(100ms, "a")}, metrics_);
  work->Start();
  world_.RunFor(250ms);
  work.reset();
  world_.RunFor(1s);
  EXPECT_EQ(runs_, (std::vector<std::string>{"a100", "a200"}));
}

// The table of the controller: each row runs at its interval and is measured.
TEST(PeriodicWork, OfTheControllerRunsAtItsIntervals) {
  const std::map<std::string, int> expected_in_20_seconds = {
      {"background_loads", 200},
      {"collective_jobs", 200},
      {"crowded_links", 200},
      {"dead_return_paths", 200},
      {"discovery", 200},
      {"dropped_events", 200},
      {"flows_of_agents", 200},
      {"heartbeats", 200},
      {"ledger", 200},
      {"link_health", 200},
      {"load_bound", 200},
      {"operator_probes", 200},
      {"phase_plan", 200},
      {"plans", 200},
      {"port_verification", 200},
      {"predicted_starts", 200},
      {"probe_orders", 200},
      {"refused_peers", 20},
      {"scheduled_intents", 20},
      {"shares", 200},
      {"sightings", 20},
      {"silent_agents", 200},
      {"standby_paths", 200},
      {"stored_events", 200},
      {"turn_request", 200},
      {"unacknowledged_pushes", 200},
      {"unused_paths", 20},
  };
  Cluster cluster({.spines = 2, .leaves = 2, .hosts_per_leaf = 2});
  const std::map<std::string, int> before = RunsIn(cluster.MetricsText());
  cluster.Advance(20s);
  std::map<std::string, int> runs = RunsIn(cluster.MetricsText());
  for (auto& [task, count] : runs) count -= before.at(task);
  EXPECT_EQ(runs, expected_in_20_seconds);
}

}  // namespace
}  // namespace espalier::controller
