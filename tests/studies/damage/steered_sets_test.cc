#include "tests/studies/damage/steered_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "tests/studies/damage/damaged_fabric.h"

namespace espalier::offline {
namespace {

using fabric::LinkId;
using fabric::Topology;
using Sets = std::vector<std::vector<SetPath>>;

std::map<std::uint32_t, double> LoadsOf(const Sets& sets) {
  std::map<std::uint32_t, double> loads;
  for (const auto& set : sets) {
    for (const SetPath& path : set) {
      for (const std::uint32_t link : path.links) loads[link] += path.share;
    }
  }
  return loads;
}

double MostOf(const Sets& sets) {
  double most = 0;
  for (const auto& [link, load] : LoadsOf(sets)) most = std::max(most, load);
  return most;
}

bool IsOver(const SetPath& path, LinkId link) {
  return std::ranges::any_of(path.links,
                             [link](std::uint32_t hop) { return hop / 2 == link.Index(); });
}

int CountOver(const Sets& sets, LinkId link) {
  int count = 0;
  for (const auto& set : sets) {
    count += static_cast<int>(
        std::ranges::count_if(set, [link](const SetPath& path) { return IsOver(path, link); }));
  }
  return count;
}

// A permutation of 12 hosts of three leaves, with four spines.
class SteeredSetsTest : public testing::Test {
 protected:
  static constexpr int kLeaves = 3;

  std::unique_ptr<SteeredSets> Make(int paths, bool keeps_weights = false) const {
    return Make(topology_, paths, keeps_weights);
  }
  std::unique_ptr<SteeredSets> Make(const Topology& topology, int paths,
                                    bool keeps_weights = false) const {
    auto made = SteeredSets::Make(
        topology, workload_,
        {.paths = static_cast<std::uint8_t>(paths), .keeps_weights = keeps_weights});
    EXPECT_TRUE(made);
    return std::move(*made);
  }

  Topology topology_ = *Topology::Build(
      *fabric::BuildLeafSpine({.spines = 4, .leaves = kLeaves, .hosts_per_leaf = 4}));
  LinkId link_ = *topology_.FindLink("leaf0--spine0");
  Workload workload_ = *Workload::Build(topology_, *MakePermutation(topology_, 3));
};

TEST_F(SteeredSetsTest, SetsOfAWholeFabricLoadEachLinkOnce) {
  for (const int paths : {1, 2, 4, 16}) {
    const Sets sets = Make(paths)->Sets();
    EXPECT_DOUBLE_EQ(MostOf(sets), 1) << paths;
    for (const auto& set : sets) {
      EXPECT_EQ(set.size(), static_cast<std::size_t>(std::min(paths, 4)));  // four spines
      double shares = 0;
      for (const SetPath& path : set) shares += path.share;
      EXPECT_NEAR(shares, 1, 1e-9);
    }
  }
}

TEST_F(SteeredSetsTest, DeadLinkIsLeftOutAndWeightsReachTheBound) {
  const Topology dead = BuildDamaged(topology_, link_, Damage::kDead);
  const Sets equal = Make(dead, 4)->Sets();
  EXPECT_EQ(CountOver(equal, link_), 0);
  EXPECT_DOUBLE_EQ(MostOf(equal), 1.5);
  EXPECT_NEAR(MostOf(Make(dead, 4, true)->Sets()), 4.0 / 3, 1e-3);
}

TEST_F(SteeredSetsTest, FlowWithinALeafHasOnePathWithoutLinks) {
  Job job{.id = "J", .model = {}, .phases = {{}}};
  job.phases[0].exchanges.push_back(
      {.flows = {{*topology_.FindNode("h0"), *topology_.FindNode("h1")}}, .round_bytes = 1});
  const Workload local = *Workload::Build(topology_, {job});
  const auto sets = SteeredSets::Make(topology_, local, {.paths = 4});
  ASSERT_TRUE(sets);
  EXPECT_EQ((*sets)->Sets(), (Sets{{SetPath{}}}));
}

TEST_F(SteeredSetsTest, NamesTheEndsOfAFlowWithoutPath) {
  Topology cut = topology_;
  for (const char* spine : {"spine0", "spine1", "spine2", "spine3"}) {
    cut.SetLinkState(*cut.FindLink(std::string("leaf0--") + spine), fabric::LinkState::kDown);
  }
  const auto sets = SteeredSets::Make(cut, workload_, {});
  ASSERT_FALSE(sets);
  EXPECT_EQ(sets.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(sets.error().message.find("no path leads from h0 to h"), std::string::npos);
}

// The controller's promise is the worst load after any failure of a spine, if hosts do what their
// standbys say; found here by trying all.
TEST_F(SteeredSetsTest, PromiseIsTheWorstOfAllSpineFailures) {
  for (const int paths : {1, 2, 4}) {
    const auto steered = Make(paths);
    steered->Prepare();
    const Sets sets = steered->Sets();
    const Sets standbys = steered->StandbySets();
    double worst = 0;
    for (const char* spine : {"spine0", "spine1", "spine2", "spine3"}) {
      Sets moved = sets;
      std::vector<LinkId> failed;
      for (int leaf = 0; leaf < kLeaves; ++leaf) {
        failed.push_back(*topology_.FindLink("leaf" + std::to_string(leaf) + "--" + spine));
      }
      for (std::size_t f = 0; f < sets.size(); ++f) {
        for (std::size_t p = 0; p < sets[f].size(); ++p) {
          const bool is_dead =
              std::ranges::any_of(failed, [&](LinkId link) { return IsOver(sets[f][p], link); });
          if (!is_dead) continue;
          EXPECT_FALSE(standbys[f][p].links.empty());
          EXPECT_EQ(standbys[f][p].share, sets[f][p].share);
          moved[f][p] = standbys[f][p];
        }
      }
      for (const LinkId link : failed) EXPECT_EQ(CountOver(moved, link), 0);
      worst = std::max(worst, MostOf(moved));
    }
    EXPECT_NEAR(steered->PromisedLoad(), worst, 1e-6) << paths;
  }
}

TEST_F(SteeredSetsTest, HostsMoveWhatIsOnTheLinkAndNothingElse) {
  const auto steered = Make(4);
  steered->Prepare();
  const Sets before = steered->Sets();
  const Sets standbys = steered->StandbySets();
  EXPECT_EQ(steered->GoToStandbys(link_), static_cast<std::size_t>(CountOver(before, link_)));
  const Sets after = steered->Sets();
  EXPECT_GT(CountOver(before, link_), 0);
  EXPECT_EQ(CountOver(after, link_), 0);
  for (std::size_t f = 0; f < before.size(); ++f) {
    for (std::size_t p = 0; p < before[f].size(); ++p) {
      EXPECT_EQ(after[f][p], IsOver(before[f][p], link_) ? standbys[f][p] : before[f][p]);
    }
  }
}

TEST_F(SteeredSetsTest, ControllerLeavesTheLinkWithAndWithoutHosts) {
  for (const bool hosts_move : {false, true}) {
    const auto steered = Make(4);
    steered->Prepare();
    const Sets before = steered->Sets();
    const std::size_t moved = hosts_move ? steered->GoToStandbys(link_) : 0;
    const std::size_t flows_on_it = steered->HandleFailure(link_, moved);
    EXPECT_EQ(flows_on_it, hosts_move ? 0U : 8U);  // four of the leaf, and four to it
    const Sets after = steered->Sets();
    EXPECT_EQ(CountOver(after, link_), 0);
    EXPECT_LE(MostOf(after), 1.5);
    if (!hosts_move) {  // a failure plan moves what has failed only
      for (std::size_t f = 0; f < before.size(); ++f) {
        for (std::size_t p = 0; p < before[f].size(); ++p) {
          EXPECT_EQ(after[f][p] == before[f][p], !IsOver(before[f][p], link_));
        }
      }
    }
    steered->Recompute();
    EXPECT_EQ(CountOver(steered->Sets(), link_), 0);
    EXPECT_LE(MostOf(steered->Sets()), MostOf(after) + 1e-9);
  }
}

TEST_F(SteeredSetsTest, ControllerWithoutFailurePlansPlacesFlowsAgain) {
  const auto steered = Make(4);
  EXPECT_EQ(steered->HandleFailure(link_, 0), 0U);
  EXPECT_EQ(CountOver(steered->Sets(), link_), 0);
  EXPECT_LE(MostOf(steered->Sets()), 1.5);
}

}  // namespace
}  // namespace espalier::offline
