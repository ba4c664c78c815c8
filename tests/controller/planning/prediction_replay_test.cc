// Jobs of many kinds against a real controller under virtual time: how many arrivals find a
// precomputed path, how good that path is, and how exact predicted start times are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <random>

#include "common/base/log.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

struct Scenario {
  std::string name;
  int jobs = 1;
  double jitter = 0;      // of compute times, ring starts and durations, to either side
  double drift = 0;       // of the iteration, each time
  double stragglers = 0;  // share of the flows that start late, by up to 0.2 s
  bool changes_phase = false;
  bool plan_ahead = true;
  double least_planned = 0.99;  // share of arrivals
};

struct Outcome {
  double planned = 0;  // share of arrivals, after three iterations
  double optimal = 0;  // share of starts after which the maximum load is the least possible
  std::int64_t starts = 0;
};

// Each job: iterations of 0.6 s of computation and two collectives, in rings of four hosts of
// different leaves, 0.1 s apart, each of about 0.2 s. 64 hosts under 16 leaves and 4 spines.
class Replay {
 public:
  static constexpr int kIterations = 24;
  static constexpr int kLeaves = 16;
  static constexpr int kHostsPerLeaf = 4;

  explicit Replay(const Scenario& scenario)
      : scenario_(scenario),
        cluster_(
            fabric::LeafSpineOptions{
                .spines = 4, .leaves = kLeaves, .hosts_per_leaf = kHostsPerLeaf},
            ControllerOptions{.plan_ahead = scenario.plan_ahead}) {
    SetLogLevel(LogLevel::kError);
    cluster_.ConnectAll();
    for (int job = 0; job < scenario.jobs; ++job) {
      Job& made = jobs_.emplace_back();
      made.name = fmt::format("job{}", job);
      Draw(made);
      const auto offset = std::chrono::microseconds(random_() % 1'000'000);
      Schedule(cluster_.controller().Now() + offset, [this, job] { Iterate(job); });
    }
  }

  Outcome Run() {
    while (!events_.empty()) {
      const TimePoint due = events_.top().time;
      const auto action = events_.top().action;
      events_.pop();
      const TimePoint now = cluster_.controller().Now();
      if (due > now) cluster_.Advance(due - now);
      action();
    }
    const auto planned = Planned();
    Outcome outcome;
    outcome.starts = starts_ - starts_before_;
    outcome.planned =
        static_cast<double>(planned - planned_before_) / static_cast<double>(outcome.starts);
    outcome.optimal = static_cast<double>(optimal_) / static_cast<double>(checks_);
    return outcome;
  }

 private:
  struct Job {
    std::string name;
    std::vector<std::vector<int>> rings;  // of hosts
    int iteration = 0;
    double length = 0.6;
  };
  struct Event {
    TimePoint time;
    std::uint64_t order;
    std::function<void()> action;
    bool operator>(const Event& other) const {
      return std::pair(time, order) > std::pair(other.time, other.order);
    }
  };

  void Schedule(TimePoint time, std::function<void()> action) {
    events_.push({time, next_order_++, std::move(action)});
  }
  Duration Vary(double seconds) {
    std::uniform_real_distribution<double> part(-scenario_.jitter, scenario_.jitter);
    return Duration(static_cast<std::int64_t>(seconds * (1 + part(random_)) * 1e9));
  }
  void Draw(Job& job) {
    job.rings.assign(4, {});
    for (std::vector<int>& ring : job.rings) {
      const int first = static_cast<int>(random_() % kLeaves);
      for (int i = 0; i < 4; ++i) {
        const int leaf = (first + i * (1 + int(random_() % 3)) + i) % kLeaves;
        ring.push_back(leaf * kHostsPerLeaf + static_cast<int>(random_() % kHostsPerLeaf));
      }
    }
  }

  void Iterate(int number) {
    Job& job = jobs_[static_cast<std::size_t>(number)];
    if (job.iteration == 3 && number == 0) {
      planned_before_ = Planned();
      starts_before_ = starts_;
    }
    if (++job.iteration > kIterations) return;
    if (scenario_.changes_phase && job.iteration == kIterations / 2) Draw(job);
    const TimePoint now = cluster_.controller().Now();
    TimePoint end = now;
    for (std::size_t ring = 0; ring < job.rings.size(); ++ring) {
      const TimePoint begin = now + (ring < 2 ? Duration{} : Vary(0.1));
      const TimePoint ring_end = begin + Vary(0.2);
      end = std::max(end, ring_end);
      for (std::size_t i = 0; i < job.rings[ring].size(); ++i) {
        const int from = job.rings[ring][i];
        const int to = job.rings[ring][(i + 1) % job.rings[ring].size()];
        if (from / kHostsPerLeaf == to / kHostsPerLeaf) continue;
        const bool is_late = std::uniform_real_distribution<>(0, 1)(random_) < scenario_.stragglers;
        const auto late =
            std::chrono::microseconds(random_() % 1'000 + (is_late ? random_() % 200'000 : 0));
        const std::uint64_t id = ++next_id_;
        Schedule(begin + late, [this, from, to, id, name = job.name] {
          ++starts_;
          cluster_.Open(from, {{.id = id, .to = to, .job = name}});
          cluster_.Settle();
          CheckLoads();
        });
        const auto reported = std::chrono::microseconds(random_() % 1'000);
        Schedule(std::max(ring_end, begin + late) + 1ms + reported, [this, from, id] {
          cluster_.End(from, id);
          cluster_.Settle();
        });
      }
    }
    job.length *= 1 + scenario_.drift;
    Schedule(end + Vary(job.length), [this, number] { Iterate(number); });
  }

  std::int64_t Planned() {
    return cluster_.CounterValue("espalier_prediction_plan_hits_total") +
           cluster_.CounterValue("espalier_prediction_plan_stale_hits_total");
  }
  void CheckLoads() {
    ++checks_;
    optimal_ += Summarize(cluster_.state()).IsOptimal() ? 1 : 0;
  }

  const Scenario scenario_;
  std::mt19937 random_{17};
  Cluster cluster_;
  std::vector<Job> jobs_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_order_ = 0;
  std::uint64_t next_id_ = 0;
  std::int64_t starts_ = 0;
  std::int64_t starts_before_ = 0;
  std::int64_t planned_before_ = 0;
  int checks_ = 0;
  int optimal_ = 0;
};

TEST(PredictionReplay, ArrivalsFindPrecomputedPathsAsGoodAsFreshOnes) {
  const std::vector<Scenario> scenarios = {
      {.name = "steady", .jobs = 1},
      {.name = "jitter 5 %", .jobs = 1, .jitter = 0.05},
      {.name = "jitter 20 %", .jobs = 1, .jitter = 0.2, .least_planned = 0.9},
      {.name = "drift 1 %", .jobs = 1, .jitter = 0.05, .drift = 0.01},
      {.name = "stragglers 5 %", .jobs = 1, .jitter = 0.05, .stragglers = 0.05},
      {.name = "4 jobs, 5 %", .jobs = 4, .jitter = 0.05},
      {.name = "4 jobs, 20 %", .jobs = 4, .jitter = 0.2, .least_planned = 0.9},
      {.name = "16 jobs, 5 %", .jobs = 16, .jitter = 0.05},
      {.name = "16 jobs, 20 %", .jobs = 16, .jitter = 0.2, .least_planned = 0.9},
  };
  for (Scenario scenario : scenarios) {
    const Outcome with = Replay(scenario).Run();
    scenario.plan_ahead = false;
    const Outcome without = Replay(scenario).Run();
    fmt::print("{:16} {:6} starts  planned {:6.2f} %  optimal {:6.2f} %, without plans {:6.2f} %\n",
               scenario.name, with.starts, 100 * with.planned, 100 * with.optimal,
               100 * without.optimal);
    EXPECT_GE(with.planned, scenario.least_planned) << scenario.name;
    EXPECT_GE(with.optimal, 0.99) << scenario.name;
    EXPECT_GE(with.optimal, without.optimal - 0.002) << scenario.name;
    EXPECT_EQ(without.planned, 0);
  }
}

TEST(PredictionReplay, APhaseChangeCostsOneIteration) {
  const Outcome outcome = Replay({.name = "phase", .jobs = 2, .changes_phase = true}).Run();
  EXPECT_GE(outcome.planned, 0.9);
  EXPECT_LT(outcome.planned, 1);
}

}  // namespace
}  // namespace espalier::controller
