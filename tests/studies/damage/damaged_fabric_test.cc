#include "tests/studies/damage/damaged_fabric.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::offline {
namespace {

using fabric::LinkId;
using fabric::NodeId;
using fabric::Topology;

Topology MakeFabric(int spines, int leaves, int hosts_per_leaf) {
  return *Topology::Build(*fabric::BuildLeafSpine(
      {.spines = spines, .leaves = leaves, .hosts_per_leaf = hosts_per_leaf}));
}

std::string LeafOf(const Topology& topology, NodeId nic) {
  return topology.node(fabric::PathTable(topology).FindAttachment(nic)->leaf).id;
}

TEST(FindUplink, FindsTheFirstOneInUseOrTheNamedOne) {
  Topology topology = MakeFabric(2, 2, 2);
  EXPECT_EQ(topology.link(*FindUplink(topology, "")).id, "leaf0--spine0");
  EXPECT_EQ(topology.link(*FindUplink(topology, "leaf1--spine1")).id, "leaf1--spine1");
  topology.SetLinkState(*topology.FindLink("leaf0--spine0"), fabric::LinkState::kDown);
  EXPECT_EQ(topology.link(*FindUplink(topology, "")).id, "leaf0--spine1");
  for (const char* name : {"leaf0--spine0", "h0--leaf0", "nothing"}) {
    const auto link = FindUplink(topology, name);
    ASSERT_FALSE(link) << name;
    EXPECT_EQ(link.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(link.error().message.find(name), std::string::npos);
  }
}

TEST(BuildDamaged, ChangesOneLinkOnly) {
  const Topology whole = MakeFabric(2, 2, 2);
  const LinkId link = *whole.FindLink("leaf1--spine0");
  const Topology dead = BuildDamaged(whole, link, Damage::kDead);
  const Topology half = BuildDamaged(whole, link, Damage::kHalfRate);
  for (std::size_t i = 0; i < whole.links().size(); ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    EXPECT_EQ(dead.link(id).state, id == link ? fabric::LinkState::kDown : fabric::LinkState::kUp);
    EXPECT_EQ(half.link(id).rate.value, whole.link(id).rate.value / (id == link ? 2 : 1));
  }
  EXPECT_EQ(BuildDamaged(whole, link, Damage::kNone).Spec().links, whole.Spec().links);
}

// Every host sends once and receives once, and never to its own leaf.
TEST(MakePermutation, CrossesLeavesForEverySeed) {
  for (const int leaves : {2, 3, 5}) {
    const Topology topology = MakeFabric(2, leaves, 4);
    std::set<std::vector<std::int32_t>> drawn;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto jobs = MakePermutation(topology, seed);
      ASSERT_TRUE(jobs);
      std::set<NodeId> sources;
      std::set<NodeId> destinations;
      std::vector<std::int32_t> order;
      for (const auto& flow : (*jobs)[0].phases[0].exchanges[0].flows) {
        EXPECT_NE(LeafOf(topology, flow.source), LeafOf(topology, flow.destination));
        sources.insert(flow.source);
        destinations.insert(flow.destination);
        order.push_back(flow.destination.value());
      }
      EXPECT_EQ(sources.size(), static_cast<std::size_t>(4 * leaves));
      EXPECT_EQ(destinations, sources);
      drawn.insert(order);
    }
    EXPECT_GE(drawn.size(), 15U);
  }
}

TEST(MakePermutation, RefusesALeafWithMostNics) {
  const auto jobs = MakePermutation(MakeFabric(2, 1, 4), 1);
  ASSERT_FALSE(jobs);
  EXPECT_EQ(jobs.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(jobs.error().message.find("leaf0"), std::string::npos);
}

TEST(MakeRings, HoldEveryHostOnceAndCrossLeaves) {
  for (const int leaves : {2, 3, 4}) {
    const Topology topology = MakeFabric(2, leaves, 4);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto jobs = MakeRings(topology, 2, seed);
      ASSERT_TRUE(jobs);
      ASSERT_EQ(jobs->size(), 2U);
      std::set<NodeId> all;
      for (const Job& job : *jobs) {
        const auto& flows = job.phases[0].exchanges[0].flows;
        EXPECT_EQ(flows.size(), static_cast<std::size_t>(2 * leaves));
        for (std::size_t i = 0; i < flows.size(); ++i) {
          EXPECT_EQ(flows[i].destination, flows[(i + 1) % flows.size()].source);
          EXPECT_NE(LeafOf(topology, flows[i].source), LeafOf(topology, flows[i].destination))
              << leaves << " leaves, seed " << seed;
          all.insert(flows[i].source);
        }
      }
      EXPECT_EQ(all.size(), static_cast<std::size_t>(4 * leaves));
    }
  }
}

TEST(MakeRings, RefusesRingsOfOneNic) {
  EXPECT_FALSE(MakeRings(MakeFabric(2, 2, 2), 4, 1));
  EXPECT_TRUE(MakeRings(MakeFabric(2, 2, 2), 2, 1));
}

// Three hosts of each leaf send to the other leaf over three spines, 100 bits in a nanosecond each.
class FractionalBoundTest : public testing::Test {
 protected:
  double Bound(const Topology& before, const Topology& after, double change_ns) const {
    return FractionalBound(workload_, {before, after, change_ns}, 1000);
  }

  Topology whole_ = MakeFabric(3, 2, 3);
  LinkId link_ = *whole_.FindLink("leaf0--spine0");
  Topology dead_ = BuildDamaged(whole_, link_, Damage::kDead);
  Topology half_ = BuildDamaged(whole_, link_, Damage::kHalfRate);
  Workload workload_ = *Workload::Build(whole_, *MakePermutation(whole_, 1));
};

TEST_F(FractionalBoundTest, IsWhatTheLeafHasToSendOverWhatItHasLeft) {
  EXPECT_DOUBLE_EQ(Bound(whole_, whole_, 0), 10);
  EXPECT_DOUBLE_EQ(Bound(dead_, dead_, 0), 15);
  EXPECT_DOUBLE_EQ(Bound(half_, half_, 0), 12);
}

TEST_F(FractionalBoundTest, CountsWhatWasSentBeforeTheChange) {
  EXPECT_DOUBLE_EQ(Bound(whole_, dead_, 4), 4 + 6 * 1.5);
  EXPECT_DOUBLE_EQ(Bound(whole_, dead_, 20), 10);  // all is sent by then
  EXPECT_DOUBLE_EQ(Bound(dead_, whole_, 3), 3 + (3000.0 - 600) / 300);
}

// More uplinks than hosts: hosts limit.
TEST_F(FractionalBoundTest, IsThatOfNicsWhereUplinksAbound) {
  const Topology wide = MakeFabric(6, 2, 3);
  const Workload workload = *Workload::Build(wide, *MakePermutation(wide, 1));
  const Topology dead = BuildDamaged(wide, *wide.FindLink("leaf0--spine0"), Damage::kDead);
  EXPECT_DOUBLE_EQ(FractionalBound(workload, {dead, dead, 0}, 1000), 10);
  // When five of the six links of a leaf come back, NICs limit what it catches up.
  Topology narrow = wide;
  for (const char* spine : {"spine1", "spine2", "spine3", "spine4", "spine5"}) {
    narrow.SetLinkState(*narrow.FindLink(std::string("leaf0--") + spine), fabric::LinkState::kDown);
  }
  EXPECT_DOUBLE_EQ(FractionalBound(workload, {narrow, wide, 3}, 1000), 3 + (3000.0 - 300) / 300);
}

}  // namespace
}  // namespace espalier::offline
