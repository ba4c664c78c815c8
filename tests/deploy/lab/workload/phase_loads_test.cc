#include "deploy/lab/workload/phase_loads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "deploy/lab/workload/phased_jobs.h"

namespace espalier::traffic {
namespace {

int LeafOf(const std::string& host) { return std::stoi(host.substr(1)) / 4; }

// Tries all assignments of a phase's bursts to these spines, with one burst on a link at most.
bool FitsOn(const Phase& phase, int first_spine, int spines, std::size_t next,
            std::map<std::tuple<int, int, bool>, int>& links) {
  if (next == phase.bursts.size()) return true;
  const Burst& burst = phase.bursts[next];
  for (int spine = first_spine; spine < first_spine + spines; ++spine) {
    int& up = links[{LeafOf(burst.source), spine, true}];
    int& down = links[{LeafOf(burst.destination), spine, false}];
    if (up + down > 0) continue;
    ++up;
    ++down;
    if (FitsOn(phase, first_spine, spines, next + 1, links)) return true;
    --up;
    --down;
  }
  return false;
}

TEST(PhaseLoads, OfTheLabsJobsAreOneInPhasesAndMoreForAllConnections) {
  for (const auto& [count, all] : {std::pair(2, 3), std::pair(4, 2)}) {
    const auto jobs = MakePhasedJobs({.jobs = count});
    ASSERT_TRUE(jobs.has_value());
    const PhaseLoads loads = BoundPhaseLoads(*jobs, 4, LeafOf);
    EXPECT_EQ(loads.worst_overlap, 1) << count;
    EXPECT_EQ(loads.all_connections, all) << count;
    EXPECT_TRUE(loads.are_phases_disjoint) << count;
    // The bound is reached: each job has its part of the spines, whatever the others do.
    for (int job = 0; job < count; ++job) {
      for (const Phase& phase : (*jobs)[static_cast<std::size_t>(job)].phases) {
        std::map<std::tuple<int, int, bool>, int> links;
        EXPECT_TRUE(FitsOn(phase, job * 4 / count, 4 / count, 0, links)) << job << phase.name;
      }
    }
  }
}

TEST(PhaseLoads, CountASharedConnectionOnceAndALocalBurstNever) {
  const std::vector<PhasedJob> jobs = {
      {.id = "A",
       .phases = {{.bursts = {{"h0", "h4", 1}, {"h1", "h5", 1}, {"h2", "h3", 1}}},
                  {.bursts = {{"h0", "h4", 1}}}}}};
  const PhaseLoads loads = BoundPhaseLoads(jobs, 1, LeafOf);
  EXPECT_EQ(loads.worst_overlap, 2);
  EXPECT_EQ(loads.all_connections, 2);
  EXPECT_FALSE(loads.are_phases_disjoint);
  EXPECT_EQ(BoundPhaseLoads(jobs, 2, LeafOf).worst_overlap, 1);
}

}  // namespace
}  // namespace espalier::traffic
