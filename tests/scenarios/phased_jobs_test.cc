// Training jobs that keep their connections, on a cluster of real agents and a real controller
// under virtual time.
#include "tests/scenarios/phased_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "deploy/lab/workload/phased_jobs.h"
#include "tests/seeds.h"

namespace espalier::scenarios {
namespace {

using namespace std::chrono_literals;

constexpr int kIterations = 16;
constexpr std::int64_t kBurstBytes = 250'000'000;  // 20 ms at 100 Gbit/s

struct Outcome {
  double worst_factor = 0;  // communication of the slowest job, over bursts alone on their links
  int ports_changed = 0;    // of all jobs
  std::uint64_t trace = 0;
};

// Of the second half of the iterations.
Outcome Play(int jobs, int queue_pairs, controller::ControllerOptions options, std::uint64_t seed) {
  SimCluster cluster({.seed = seed, .controller = options});
  cluster.StartAll();
  cluster.world().RunFor(1s);
  auto made = traffic::MakePhasedJobs({.jobs = jobs,
                                       .iterations = kIterations,
                                       .burst_bytes = kBurstBytes,
                                       .compute_seconds = 0.05,
                                       .jitter_percent = 1,
                                       .queue_pairs = queue_pairs})
                  .value();
  const double ideal = static_cast<double>(made[0].phases.size()) * 8 * kBurstBytes / 100e9;
  PhasedJobs played(cluster, std::move(made), seed);
  played.Open();
  cluster.world().RunFor(1s);
  EXPECT_TRUE(played.Run(60s));
  Outcome outcome;
  for (std::size_t j = 0; j < static_cast<std::size_t>(jobs); ++j) {
    double seconds = 0;
    for (std::size_t i = kIterations / 2; i < kIterations; ++i) {
      seconds += std::chrono::duration<double>(played.communication(j)[i]).count();
      outcome.ports_changed += played.ports_changed(j)[i];
    }
    outcome.worst_factor = std::max(outcome.worst_factor, seconds / (kIterations / 2) / ideal);
  }
  outcome.trace = cluster.world().TraceHash();
  return outcome;
}

// The fabric has a link for every flow in every meeting of phases, although all connections of two
// jobs need more.
TEST(PhasedJobs, HaveTheirLinksForThemselvesOnceTheirPhasesAreLearned) {
  for (const std::uint64_t seed : SeedsToTry(1, 3)) {
    for (const int jobs : {2, 4}) {
      for (const int queue_pairs : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message()
                     << "seed " << seed << ", jobs " << jobs << ", queue pairs " << queue_pairs);
        const Outcome outcome = Play(jobs, queue_pairs, {}, seed);
        EXPECT_LE(outcome.worst_factor, 1.15);
        EXPECT_EQ(outcome.ports_changed, 0);
      }
    }
  }
}

// Pushes that the controller has sent to all agents.
std::uint64_t PushesOf(SimCluster& cluster) {
  const controller::State& state = cluster.controller().state();
  std::uint64_t pushes = 0;
  for (std::size_t i = 0; i < state.agents.size(); ++i) {
    pushes += state.agents.At(controller::AgentId(static_cast<std::int32_t>(i))).generation;
  }
  return pushes;
}

// Jitter makes phases late, and the phases of two jobs drift against each other. Reports that are
// late make flows seem late. The plan of phases stays as it is, so no host is told anything.
TEST(PhasedJobs, NeedNoPushOnceTheirPhasesAreLearned) {
  for (const std::uint64_t seed : SeedsToTry(1, 2)) {
    for (const int jitter_percent : {1, 5}) {
      for (const Duration late : {0ms, 60ms}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", jitter " << jitter_percent
                                        << " %, reports late by up to " << late / 1ms << " ms");
        SimCluster cluster({.seed = seed, .faults = {.jitter = late}});
        cluster.StartAll();
        cluster.world().RunFor(1s);
        PhasedJobs played(cluster,
                          traffic::MakePhasedJobs({.jobs = 2,
                                                   .iterations = 80,
                                                   .burst_bytes = kBurstBytes,
                                                   .compute_seconds = 0.05,
                                                   .jitter_percent = jitter_percent})
                              .value(),
                          seed);
        played.Open();
        ASSERT_TRUE(played.RunUntil(20, 60s));
        const std::uint64_t learned = PushesOf(cluster);
        EXPECT_GT(learned, 0U);
        ASSERT_TRUE(played.RunUntil(80, 120s));
        EXPECT_EQ(PushesOf(cluster) - learned, 0U);
      }
    }
  }
}

TEST(PhasedJobs, CollideWhenAllConnectionsCount) {
  double worst = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 3)) {
    const Outcome outcome = Play(2, 1, {.activity = controller::Activity::kConnections}, seed);
    worst = std::max(worst, outcome.worst_factor);
  }
  EXPECT_GT(worst, 1.01);
}

TEST(PhasedJobs, TheSameSeedGivesTheSameTrace) {
  EXPECT_EQ(Play(2, 2, {}, 7).trace, Play(2, 2, {}, 7).trace);
  EXPECT_NE(Play(2, 2, {}, 7).trace, Play(2, 2, {}, 8).trace);
}

}  // namespace
}  // namespace espalier::scenarios
