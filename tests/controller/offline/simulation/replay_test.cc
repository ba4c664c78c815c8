// The paper's own job files against reference values of an independent replay.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/fabric/builders.h"
#include "controller/offline/comparators/comparators.h"
#include "controller/offline/files/job_file.h"
#include "controller/offline/simulation/assignment_router.h"
#include "controller/offline/simulation/simulator.h"
#include "controller/routing/assigner.h"

namespace espalier::offline {
namespace {

using controller::Assigner;
using controller::Assignment;
using controller::Commodity;
using controller::FabricView;
using controller::PaperOrder;

using fabric::Topology;

enum class By { kGreedy, kPaperGreedy, kOptimal, kIdeal };

Topology MakePaperFabric(int failed_spines) {
  auto topology =
      Topology::Build(*fabric::BuildLeafSpine({.spines = 32, .leaves = 64, .hosts_per_leaf = 32}));
  for (int leaf = 0; leaf < 64; ++leaf) {
    for (int spine = 32 - failed_spines; spine < 32; ++spine) {
      topology->SetLinkState(*topology->FindLink(fmt::format("leaf{}--spine{}", leaf, spine)),
                             fabric::LinkState::kDown);
    }
  }
  return std::move(*topology);
}

// Assigns in the authors' order, without splitting; paths are in the order of the commodities.
Assignment PaperGreedy(Assigner& assigner, std::span<const Commodity> commodities) {
  const auto order = PaperOrder(commodities);
  std::vector<Commodity> ordered;
  for (const std::uint32_t i : order) ordered.push_back(commodities[i]);
  Assignment assignment = assigner.Greedy(ordered);
  const std::vector<std::int32_t> paths = assignment.paths;
  for (std::size_t place = 0; place < order.size(); ++place) {
    assignment.paths[order[place]] = paths[place];
  }
  return assignment;
}

SimulationOutcome Replay(int jobs, int ring_size, int failed_spines, By by,
                         std::uint32_t subflows = 1) {
  const Topology topology = MakePaperFabric(failed_spines);
  const std::string folder =
      fmt::format("{}/concurrent_jobs_{}/ring_size_{}", ESPALIER_FLOODNS_DATA, jobs, ring_size);
  auto read = ReadJobs(folder, topology);
  EXPECT_TRUE(read.has_value()) << read.error().message;
  const auto workload = Workload::Build(topology, std::move(*read));
  EXPECT_TRUE(workload.has_value()) << workload.error().message;
  fabric::PathTable paths(topology);
  FabricView view(topology, paths);
  Assigner assigner(view);
  AssignmentRouter router(*workload, view, subflows,
                          [&](std::span<const Commodity> commodities,
                              std::span<const std::uint32_t> flows) -> Assignment {
                            if (by == By::kGreedy) return assigner.Greedy(commodities);
                            if (by == By::kPaperGreedy) return PaperGreedy(assigner, commodities);
                            if (by == By::kOptimal) return assigner.Optimal(commodities);
                            return AssignByHash(
                                view, commodities,
                                std::vector<std::uint64_t>(flows.begin(), flows.end()), 0);
                          });
  const auto outcome = Simulate(*workload, router, {.is_ideal = by == By::kIdeal});
  EXPECT_TRUE(outcome.has_value()) << outcome.error().message;
  return *outcome;
}

std::string FourDigits(double seconds) { return fmt::format("{:.4f}", seconds); }

TEST(Replay, OneJobHasTheReferenceTimes) {
  struct Row {
    int ring_size;
    int failed_spines;
    const char* seconds;
  };
  for (const Row& row :
       {Row{2, 0, "1.1733"}, Row{4, 0, "1.7600"}, Row{8, 0, "2.0533"}, Row{2, 1, "2.3467"},
        Row{4, 1, "3.5200"}, Row{8, 1, "4.1067"}, Row{2, 4, "2.3467"}, Row{2, 8, "2.3467"},
        Row{4, 8, "3.5200"}, Row{8, 8, "4.1067"}}) {
    SCOPED_TRACE(fmt::format("ring {} failed {}", row.ring_size, row.failed_spines));
    for (const By by : {By::kGreedy, By::kOptimal}) {
      const SimulationOutcome outcome = Replay(1, row.ring_size, row.failed_spines, by);
      EXPECT_EQ(FourDigits(outcome.jobs[0].allreduce_seconds), row.seconds);
    }
  }
}

TEST(Replay, ContentionFreeHasTheReferenceTimes) {
  const std::pair<int, std::vector<std::string>> two_jobs[] = {
      {2, {"1.1733", "0.1750"}}, {4, {"1.7600", "0.2625"}}, {8, {"2.0533", "1.5313"}}};
  for (const auto& [ring_size, seconds] : two_jobs) {
    const SimulationOutcome outcome = Replay(2, ring_size, 0, By::kIdeal);
    ASSERT_EQ(outcome.jobs.size(), 2U);
    EXPECT_EQ(FourDigits(outcome.jobs[0].allreduce_seconds), seconds[0]);
    EXPECT_EQ(FourDigits(outcome.jobs[1].allreduce_seconds), seconds[1]);
    EXPECT_NEAR(outcome.jobs[0].mean_throughput_gbps, 100, 1e-6);
  }
}

TEST(Replay, TwoJobsWithoutContentionUnderGreedyAreContentionFree) {
  const SimulationOutcome outcome = Replay(2, 2, 0, By::kGreedy);
  EXPECT_EQ(FourDigits(outcome.jobs[0].allreduce_seconds), "1.1733");
  EXPECT_EQ(FourDigits(outcome.jobs[1].allreduce_seconds), "0.1750");
  const SimulationOutcome failed = Replay(2, 4, 8, By::kGreedy);
  EXPECT_EQ(FourDigits(failed.jobs[0].allreduce_seconds), "3.2001");
  EXPECT_EQ(FourDigits(failed.jobs[1].allreduce_seconds), "0.5250");
}

// Equal maximum load is not equal time: it also matters which flows share a link.
TEST(Replay, OptimalIsNowhereMoreThanOnePercentSlowerThanThePapersGreedy) {
  for (const int failed_spines : {1, 8}) {
    const SimulationOutcome greedy = Replay(2, 8, failed_spines, By::kPaperGreedy);
    const SimulationOutcome optimal = Replay(2, 8, failed_spines, By::kOptimal);
    for (std::size_t job = 0; job < greedy.jobs.size(); ++job) {
      EXPECT_LE(optimal.jobs[job].allreduce_seconds, 1.01 * greedy.jobs[job].allreduce_seconds)
          << failed_spines << " failed, job " << job;
    }
  }
}

// Losing one of 32 spines doubles the time of flows that are not split.
TEST(Replay, SplittingRecoversTheLossOfASpine) {
  const double whole = Replay(1, 8, 1, By::kOptimal).jobs[0].allreduce_seconds;
  const double halves = Replay(1, 8, 1, By::kOptimal, 2).jobs[0].allreduce_seconds;
  const double eighths = Replay(1, 8, 1, By::kOptimal, 8).jobs[0].allreduce_seconds;
  EXPECT_NEAR(halves / whole, 0.75, 0.01);
  EXPECT_NEAR(eighths / whole, 0.5625, 0.01);
}

}  // namespace
}  // namespace espalier::offline
