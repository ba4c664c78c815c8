#include "controller/offline/evaluation/schemes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/offline/evaluation/solver.h"

namespace espalier::offline {
namespace {

TEST(Algorithms, AreReadByTheirNames) {
  const auto all = ParseAlgorithms("all");
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(std::ranges::count(*all, Algorithm::kIlp), 0);
  EXPECT_EQ(all->size(), 7U);
  std::string names = "ilp";
  for (const Algorithm algorithm : *all) {
    const auto alone = ParseAlgorithms(AlgorithmName(algorithm));
    ASSERT_TRUE(alone.has_value());
    EXPECT_EQ(*alone, std::vector<Algorithm>{algorithm});
    names += ',' + std::string(AlgorithmName(algorithm));
  }
  const auto several = ParseAlgorithms(names);
  ASSERT_TRUE(several.has_value());
  ASSERT_EQ(several->size(), 8U);
  EXPECT_EQ(several->front(), Algorithm::kIlp);
  EXPECT_TRUE(std::equal(all->begin(), all->end(), several->begin() + 1));
  for (const char* wrong : {"", ",", "greedy,", ",greedy", "Greedy", "greedy ", "greedy,all"}) {
    const auto refused = ParseAlgorithms(wrong);
    ASSERT_FALSE(refused.has_value()) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(TypicalMicroseconds, IsTheMedian) {
  EXPECT_EQ(TypicalMicroseconds({}), 0);
  EXPECT_DOUBLE_EQ(TypicalMicroseconds({5e-6}), 5);
  EXPECT_DOUBLE_EQ(TypicalMicroseconds({9, 1e-6, 3e-6}), 3);
  EXPECT_DOUBLE_EQ(TypicalMicroseconds({4e-6, 9, 1e-6, 3e-6}), 4);
}

// Two jobs whose rings cross the spines, and one of which stays within a leaf.
class SchemeRunnerTest : public testing::Test {
 protected:
  static fabric::Topology MakeFabric(int spines) {
    return *fabric::Topology::Build(
        *fabric::BuildLeafSpine({.spines = spines, .leaves = 3, .hosts_per_leaf = 4}));
  }
  static Workload MakeWorkload(const fabric::Topology& topology) {
    const auto ring = [&](const std::vector<int>& hosts) {
      std::vector<fabric::NodeId> nics;
      for (const int host : hosts) nics.push_back(*topology.FindNode("h" + std::to_string(host)));
      return MakeRing(nics, 1'000'000 * static_cast<std::int64_t>(hosts.size()));
    };
    std::vector<Job> jobs = {
        {.id = "A", .epochs = 3, .phases = {{.exchanges = {ring({0, 4, 8}), ring({1, 5, 9})}}}},
        {.id = "B",
         .start_ns = 1'000,
         .epochs = 2,
         .phases = {{.exchanges = {ring({2, 6}), ring({10, 11})}}}}};
    return *Workload::Build(topology, std::move(jobs));
  }
  SchemeRun Run(const Scheme& scheme) {
    auto run = runner_.Run(scheme, {});
    EXPECT_TRUE(run.has_value()) << run.error().message;
    return std::move(*run);
  }
  static double Slowest(const SchemeRun& run) {
    double slowest = 0;
    for (const JobOutcome& job : run.outcome.jobs) {
      slowest = std::max(slowest, job.allreduce_seconds);
    }
    return slowest;
  }

  fabric::Topology topology_ = MakeFabric(4);
  Workload workload_ = MakeWorkload(topology_);
  int solved_ = 0;
  SchemeRunner runner_{topology_, workload_, [this](const std::string& program) {
                         ++solved_;
                         return SolveWithCbc(program);
                       }};
};

TEST_F(SchemeRunnerTest, NoSchemeIsFasterThanIdealOrLighterThanTheProgram) {
  const SchemeRun ideal = Run({Algorithm::kIdeal});
  const SchemeRun ilp = Run({Algorithm::kIlp});
  for (const Algorithm algorithm :
       {Algorithm::kGreedy, Algorithm::kOptimal, Algorithm::kAnnealing, Algorithm::kEcmp,
        Algorithm::kConnections, Algorithm::kPhases}) {
    SCOPED_TRACE(AlgorithmName(algorithm));
    const SchemeRun run = Run({algorithm, 1, 3});
    EXPECT_GE(run.overlap.load, run.overlap.lower_bound);
    EXPECT_GE(run.overlap.load.Value() + 1e-9, run.outcome.max_link_load);
    EXPECT_EQ(run.scheme.algorithm, algorithm);
    EXPECT_GE(Slowest(run), Slowest(ideal) - 1e-9);
    EXPECT_GE(run.outcome.max_link_load, ilp.outcome.max_link_load);
    EXPECT_EQ(run.assignment_seconds.size(), static_cast<std::size_t>(run.outcome.assignments));
    EXPECT_EQ(run.outcome.jobs.size(), 2U);
    EXPECT_EQ(run.outcome.jobs[0].epoch_seconds.size(), 3U);
  }
  EXPECT_EQ(Run({Algorithm::kOptimal}).outcome.max_link_load, ilp.outcome.max_link_load);
  EXPECT_LT(Run({Algorithm::kOptimal, 4}).outcome.max_link_load, ilp.outcome.max_link_load + 1e-9);
}

// The epochs of a job repeat its sets of flows: each is solved once, and the time counts once.
TEST_F(SchemeRunnerTest, SolvesEachSetOfFlowsOnce) {
  const SchemeRun first = Run({Algorithm::kIlp});
  EXPECT_GT(solved_, 0);
  EXPECT_LT(solved_, first.outcome.assignments);
  EXPECT_EQ(first.assignment_seconds.size(), static_cast<std::size_t>(solved_));
  const int before = solved_;
  const SchemeRun again = Run({Algorithm::kIlp});
  EXPECT_EQ(solved_, before);
  EXPECT_TRUE(again.assignment_seconds.empty());
  EXPECT_EQ(again.outcome.max_link_load, first.outcome.max_link_load);
  EXPECT_EQ(again.outcome.events, first.outcome.events);
  Run({Algorithm::kIlp, 2});
  EXPECT_GT(solved_, before) << "other subflows are another program";
}

TEST_F(SchemeRunnerTest, ReturnsTheFirstErrorOfTheSolver) {
  int calls = 0;
  SchemeRunner runner(topology_, workload_, [&](const std::string&) -> Result<std::string> {
    return Fail(ErrorCode::kUnsupported, "failure " + std::to_string(++calls));
  });
  const auto run = runner.Run({Algorithm::kIlp}, {});
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().message, "failure 1");
  EXPECT_TRUE(runner.Run({Algorithm::kOptimal}, {}).has_value());
}

// The seed alone decides, for the schemes that have one.
TEST_F(SchemeRunnerTest, RepeatsARunOfASeed) {
  for (const Algorithm algorithm : {Algorithm::kEcmp, Algorithm::kAnnealing}) {
    const SchemeRun one = Run({algorithm, 1, 5});
    const SchemeRun same = Run({algorithm, 1, 5});
    EXPECT_EQ(one.outcome.max_link_load, same.outcome.max_link_load);
    EXPECT_EQ(one.outcome.end_seconds, same.outcome.end_seconds);
  }
  std::vector<double> ends;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    ends.push_back(Run({Algorithm::kEcmp, 1, seed}).outcome.end_seconds);
  }
  EXPECT_NE(std::ranges::min(ends), std::ranges::max(ends));
}

// Only the last spines lose their links, and nothing else.
TEST_F(SchemeRunnerTest, FailsTheLastSpines) {
  for (int count = 0; count <= 4; ++count) {
    fabric::Topology topology = MakeFabric(4);
    ASSERT_TRUE(FailLastSpines(topology, count).has_value());
    for (const fabric::Link& link : topology.links()) {
      bool is_failed = false;
      for (int spine = 4 - count; spine < 4; ++spine) {
        is_failed = is_failed || link.id.ends_with("--spine" + std::to_string(spine));
      }
      EXPECT_EQ(link.state == fabric::LinkState::kDown, is_failed) << link.id;
    }
  }
  fabric::Topology topology = MakeFabric(4);
  const auto refused = FailLastSpines(topology, 6);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "--failed-spines exceeds the number of spines in the topology by 2");
}

}  // namespace
}  // namespace espalier::offline
