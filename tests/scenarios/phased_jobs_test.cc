// Training jobs that keep their connections, on a cluster of real agents and a real controller
// under virtual time.
#include "deploy/lab/workload/phased_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "deploy/simulation/job_player.h"
#include "tests/scenarios/sim_cluster.h"
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

// The jobs of the lab's workload, which begin after a second.
std::vector<simulation::PlayedJob> JobsFor(const std::vector<traffic::PhasedJob>& made) {
  const auto host_of = [](const std::string& name) { return std::stoi(name.substr(1)); };
  std::vector<simulation::PlayedJob> jobs;
  for (const traffic::PhasedJob& job : made) {
    simulation::PlayedJob& played = jobs.emplace_back();
    played.id = job.id;
    played.start = 1s;
    played.iterations = job.iterations;
    played.jitter_percent = job.jitter_percent;
    played.queue_pairs = job.queue_pairs;
    for (const traffic::Phase& phase : job.phases) {
      simulation::PlayedPhase& own = played.phases.emplace_back();
      own.compute = Duration(static_cast<Duration::rep>(1e9 * phase.compute_seconds));
      for (const traffic::Burst& burst : phase.bursts) {
        own.bursts.push_back({host_of(burst.source), host_of(burst.destination),
                              static_cast<std::uint64_t>(burst.bytes)});
      }
    }
  }
  return jobs;
}

// Of the second half of the iterations.
Outcome Play(int count, int queue_pairs, const controller::ControllerOptions& options,
             std::uint64_t seed) {
  SimCluster cluster({.seed = seed, .controller = options});
  cluster.StartAll();
  const auto jobs = JobsFor(traffic::MakePhasedJobs({.jobs = count,
                                                     .iterations = kIterations,
                                                     .burst_bytes = kBurstBytes,
                                                     .compute_seconds = 0.05,
                                                     .jitter_percent = 1,
                                                     .queue_pairs = queue_pairs})
                                .value());
  simulation::JobPlayer player(cluster, jobs, seed);
  player.Begin();
  EXPECT_TRUE(cluster.RunUntil([&] { return player.IsOver(); }, 60s));
  const fabric::Topology& topology = cluster.fabric().topology();
  Outcome outcome;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const double ideal = SecondsOf(
        simulation::IdealCommunication(topology, simulation::ListNics(topology), jobs[j]));
    EXPECT_DOUBLE_EQ(ideal, static_cast<double>(jobs[j].phases.size()) * 8 * kBurstBytes / 100e9);
    double seconds = 0;
    for (std::size_t i = kIterations / 2; i < kIterations; ++i) {
      seconds += SecondsOf(player.run(j).communication[i]);
      outcome.ports_changed += player.run(j).ports_changed[i];
    }
    outcome.worst_factor = std::max(outcome.worst_factor, seconds / (0.5 * kIterations) / ideal);
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
  // Among them three with which flows of two phases look like one set, or seem to be in another
  // phase at times.
  for (const std::uint64_t seed : SeedsToTry(27, 8)) {
    for (const int jitter_percent : {1, 5}) {
      for (const Duration late : {0ms, 60ms}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", jitter " << jitter_percent
                                        << " %, reports late by up to " << late / 1ms << " ms");
        SimCluster cluster({.seed = seed, .faults = {.jitter = late}});
        cluster.StartAll();
        const auto jobs = JobsFor(traffic::MakePhasedJobs({.jobs = 2,
                                                           .iterations = 80,
                                                           .burst_bytes = kBurstBytes,
                                                           .compute_seconds = 0.05,
                                                           .jitter_percent = jitter_percent})
                                      .value());
        simulation::JobPlayer player(cluster, jobs, seed);
        player.Begin();
        const auto have_played = [&](std::size_t iterations) {
          for (std::size_t job = 0; job < jobs.size(); ++job) {
            if (player.run(job).communication.size() < iterations) return false;
          }
          return true;
        };
        ASSERT_TRUE(cluster.RunUntil([&] { return have_played(20); }, 60s));
        const std::uint64_t learned = PushesOf(cluster);
        EXPECT_GT(learned, 0U);
        ASSERT_TRUE(cluster.RunUntil([&] { return have_played(80); }, 120s));
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
