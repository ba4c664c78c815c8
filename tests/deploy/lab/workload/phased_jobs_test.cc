#include "deploy/lab/workload/phased_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace espalier::traffic {
namespace {

using testing::ElementsAre;

std::vector<std::string> PhaseNames(const PhasedJob& job) {
  std::vector<std::string> names;
  for (const Phase& phase : job.phases) names.push_back(phase.name);
  return names;
}

TEST(PhasedJobs, AreOfThreeParallelDimensionsAcrossTheLeaves) {
  const auto jobs = MakePhasedJobs({.jobs = 2, .iterations = 7, .queue_pairs = 4});
  ASSERT_TRUE(jobs.has_value());
  ASSERT_EQ(jobs->size(), 2U);
  std::set<std::string> hosts;
  for (const PhasedJob& job : *jobs) {
    EXPECT_EQ(job.iterations, 7);
    EXPECT_EQ(job.queue_pairs, 4);
    EXPECT_THAT(PhaseNames(job), ElementsAre("tensor", "forward", "backward", "all-reduce"));
    std::set<std::pair<std::string, std::string>> pairs;
    std::size_t bursts = 0;
    for (const Phase& phase : job.phases) {
      std::map<std::string, int> sent;
      std::map<std::string, int> received;
      for (const Burst& burst : phase.bursts) {
        EXPECT_EQ(++sent[burst.source], 1) << phase.name;
        EXPECT_EQ(++received[burst.destination], 1) << phase.name;
        EXPECT_NE(std::stoi(burst.source.substr(1)) / 4,
                  std::stoi(burst.destination.substr(1)) / 4);
        pairs.insert({burst.source, burst.destination});
        hosts.insert(burst.source);
        ++bursts;
      }
    }
    EXPECT_EQ(pairs.size(), bursts);  // no connection serves two phases
  }
  EXPECT_EQ(hosts.size(), 16U);
  EXPECT_LT((*jobs)[0].phases[0].compute_seconds, (*jobs)[1].phases[0].compute_seconds);
}

TEST(PhasedJobs, OfOneStageHaveNoPipeline) {
  const auto jobs = MakePhasedJobs({.jobs = 4});
  ASSERT_TRUE(jobs.has_value());
  ASSERT_EQ(jobs->size(), 4U);
  EXPECT_EQ((*jobs)[3].id, "D");
  EXPECT_THAT(PhaseNames((*jobs)[3]), ElementsAre("tensor", "all-reduce"));
  EXPECT_EQ((*jobs)[3].phases[1].bursts[0].source, "h3");
  EXPECT_EQ((*jobs)[3].phases[1].bursts[0].destination, "h11");
}

TEST(PhasedJobs, RefuseFabricsThatTheyDoNotFit) {
  EXPECT_FALSE(MakePhasedJobs({.leaves = 6}).has_value());
  EXPECT_FALSE(MakePhasedJobs({.hosts_per_leaf = 4, .jobs = 3}).has_value());
  EXPECT_FALSE(MakePhasedJobs({.jobs = 0}).has_value());
}

}  // namespace
}  // namespace espalier::traffic
