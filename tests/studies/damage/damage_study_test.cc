#include "tests/studies/damage/damage_study.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "common/fabric/builders.h"

namespace espalier::offline {
namespace {

using fabric::Topology;

Topology MakeFabric(int spines, int leaves) {
  return *Topology::Build(
      *fabric::BuildLeafSpine({.spines = spines, .leaves = leaves, .hosts_per_leaf = spines}));
}

DamageStudy MakeStudy(int spines, int leaves, const DamageOptions& options = {}) {
  Topology topology = MakeFabric(spines, leaves);
  const fabric::LinkId link = *topology.FindLink("leaf0--spine0");
  return {std::move(topology), link, options};
}

std::map<std::string, FailureReaction> ByName(const Failure& failure) {
  std::map<std::string, FailureReaction> reactions;
  for (const FailureReaction& reaction : failure.reactions) {
    reactions.emplace(reaction.name, reaction);
  }
  return reactions;
}

// With two spines, one of which is lost to leaf 0, its two flows share what is left.
TEST(DamageStudyTest, TwoFlowsOnOneLinkTakeTwice) {
  const DamageStudy study = MakeStudy(2, 2);
  for (const int paths : {1, 2}) {
    const auto row = study.RunKnown(Traffic::kPermutation, Damage::kDead, paths);
    ASSERT_TRUE(row);
    EXPECT_EQ(row->paths, paths);
    EXPECT_DOUBLE_EQ(row->bound, 2);
    EXPECT_NEAR(row->equal, 2, 1e-6);
    EXPECT_NEAR(row->weights, 2, 1e-6);
    EXPECT_NEAR(row->progress, 2, 1e-6);
  }
}

TEST(DamageStudyTest, WholeFabricTakesNoLongerThanAFlowAlone) {
  for (const Traffic traffic : {Traffic::kPermutation, Traffic::kRings}) {
    const auto row = MakeStudy(4, 4).RunKnown(traffic, Damage::kNone, 2);
    ASSERT_TRUE(row);
    EXPECT_DOUBLE_EQ(row->bound, 1);
    EXPECT_NEAR(row->equal, 1, 1e-6);
    EXPECT_NEAR(row->progress, 1, 1e-6);
  }
}

// Four flows of a leaf over three links, for all seeds: one path each takes twice, by progress
// never longer than with equal shares, and nothing beats the bound.
TEST(DamageStudyTest, LargerSetsByProgressComeCloserToTheBound) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const DamageStudy study = MakeStudy(4, 4, {.seed = seed});
    const auto one = study.RunKnown(Traffic::kPermutation, Damage::kDead, 1);
    const auto four = study.RunKnown(Traffic::kPermutation, Damage::kDead, 4);
    ASSERT_TRUE(one && four);
    EXPECT_NEAR(one->progress, 2, 1e-6);
    EXPECT_DOUBLE_EQ(four->bound, 4.0 / 3);
    for (const double slowest : {four->equal, four->weights, four->progress}) {
      EXPECT_GE(slowest, four->bound - 1e-9);
    }
    EXPECT_NEAR(four->equal, 1.5, 1e-6);
    EXPECT_LT(four->weights, 1.34);
    EXPECT_LT(four->progress, four->equal - 0.05);
  }
}

TEST(DamageStudyTest, SameSeedGivesTheSame) {
  const auto run = [](std::uint64_t seed) {
    return MakeStudy(8, 4, {.seed = seed}).RunKnown(Traffic::kPermutation, Damage::kDead, 4);
  };
  EXPECT_EQ(run(1)->progress, run(1)->progress);
  EXPECT_NE(run(1)->progress, run(2)->progress);
}

// With two spines: from the half of the transfer on, one link has the flows of two.
TEST(DamageStudyTest, FailureByHandWithTwoSpines) {
  const auto rows = MakeStudy(2, 2).RunFailure(1);
  ASSERT_TRUE(rows);
  for (const Failure& row : *rows) {
    EXPECT_DOUBLE_EQ(row.bound, 0.5 + 0.5 * 2);
    const auto reactions = ByName(row);
    EXPECT_EQ(reactions.at("nobody").unfinished, 2);  // one each way
    for (const char* name : {"hosts_alone", "controller", "recompute", "both"}) {
      EXPECT_EQ(reactions.at(name).unfinished, 0) << name;
      // The other flow has its link alone until the flow arrives, so that nothing is lost.
      EXPECT_NEAR(reactions.at(name).slowest, 1.5, 1e-6) << name;
    }
  }
}

TEST(DamageStudyTest, NobodyIsFasterThanTheBoundAfterAFailure) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const DamageStudy study = MakeStudy(4, 4, {.seed = seed});
    for (const int paths : {1, 2, 4}) {
      const auto rows = study.RunFailure(paths);
      ASSERT_TRUE(rows);
      for (const Failure& row : *rows) {
        EXPECT_DOUBLE_EQ(row.bound, 0.5 + 0.5 * 4 / 3);
        for (const FailureReaction& reaction : row.reactions) {
          if (reaction.unfinished == 0) {
            EXPECT_GE(reaction.slowest, row.bound - 1e-9) << reaction.name;
          }
        }
        const auto reactions = ByName(row);
        // A static share on the dead link is lost for good; a pool flows by other paths.
        EXPECT_EQ(reactions.at("nobody").unfinished, row.by_progress && paths > 1 ? 0 : 2 * paths);
      }
    }
  }
}

// Hosts that react later are slower, if the controller does nothing.
TEST(DamageStudyTest, ReactionTimesCount) {
  const auto slowest = [](double hosts_after_ms) {
    const auto rows = MakeStudy(4, 4, {.hosts_after_ms = hosts_after_ms}).RunFailure(1);
    return ByName(rows->front()).at("hosts_alone").slowest;
  };
  // A flow that has lost its path for longer than the others need goes on alone: 0.9 + 0.5.
  EXPECT_NEAR(slowest(900), 1.9, 1e-6);
  EXPECT_NEAR(slowest(100), 1.5, 1e-6);
}

TEST(DamageStudyTest, LoadsStayWithinThePromise) {
  for (const int paths : {1, 2, 4}) {
    const auto row = MakeStudy(4, 3).RunShiftedLoads(paths);
    ASSERT_TRUE(row);
    EXPECT_EQ(row->links.failures, 12);
    EXPECT_EQ(row->switches.failures, 4);
    EXPECT_EQ(row->links.without_standby + row->switches.without_standby, 0);
    EXPECT_NEAR(row->before, 1, 1e-9);
    // The promise is exact for spines, and no link can be worse.
    EXPECT_NEAR(row->switches.load, row->promised, 1e-6);
    EXPECT_LE(row->links.load, row->promised + 1e-6);
    EXPECT_NEAR(row->switches.bound, 4.0 / 3, 1e-9);
    EXPECT_NEAR(row->switches.over_bound, row->switches.load / row->switches.bound, 1e-9);
  }
  EXPECT_NEAR(MakeStudy(4, 3).RunShiftedLoads(1)->promised, 2, 1e-6);
}

TEST(DamageStudyTest, CountsPathsWithoutStandby) {
  const auto row = MakeStudy(1, 2).RunShiftedLoads(1);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->links.without_standby, 4);  // two flows over each of two links
  EXPECT_EQ(row->switches.without_standby, 2);
  EXPECT_EQ(row->switches.load, 0);  // what hosts could not move is on dead links
}

TEST(DamageStudyTest, RefusesWhatItCannotSimulate) {
  // A dead link cuts a leaf with one uplink off.
  const DamageStudy cut = MakeStudy(1, 2);
  EXPECT_FALSE(cut.RunKnown(Traffic::kPermutation, Damage::kDead, 1));
  EXPECT_FALSE(cut.RunFailure(1));
  Topology tree = *Topology::Build(*fabric::BuildFatTree({.k = 4}));
  const auto link = FindUplink(tree, "");
  EXPECT_TRUE(DamageStudy(std::move(tree), *link, {}).RunFailure(4));
}

TEST(DamageStudyTest, EndsWhenCancelled) {
  const DamageStudy study = MakeStudy(2, 2, {.is_cancelled = [] { return true; }});
  const auto row = study.RunKnown(Traffic::kPermutation, Damage::kDead, 1);
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(study.RunFailure(1));
  EXPECT_FALSE(study.RunShiftedLoads(1));
}

}  // namespace
}  // namespace espalier::offline
