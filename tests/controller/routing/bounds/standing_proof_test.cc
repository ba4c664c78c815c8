#include "controller/routing/bounds/standing_proof.h"

#include <gtest/gtest.h>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

Proof ProofOf(const fabric::Topology& topology) {
  const fabric::PathTable paths(topology);
  return StandingProof(FabricView(topology, paths));
}

fabric::Topology Pods(int leaves, int cores) {
  return *fabric::Topology::Build(*fabric::BuildPods({.pods = 2,
                                                      .leaves_per_pod = leaves,
                                                      .aggs_per_pod = 2,
                                                      .cores = cores,
                                                      .hosts_per_leaf = 2}));
}

TEST(StandingProof, NamesTheTheoremThatHoldsForAllFlows) {
  EXPECT_EQ(ProofOf(*fabric::Topology::Build(*fabric::BuildLeafSpine({}))), Proof::kTwoTiers);
  EXPECT_EQ(ProofOf(Pods(2, 4)), Proof::kNotNarrower);
  EXPECT_EQ(ProofOf(Pods(2, 8)), Proof::kNotNarrower);
  // Pods of three leaves have three links below each aggregation switch and two above.
  EXPECT_EQ(ProofOf(Pods(3, 4)), Proof::kNone);
}

TEST(StandingProof, PromisesNothingWithADeadLinkOrUnequalRates) {
  fabric::Topology dead = Pods(2, 4);
  dead.SetLinkState(*dead.FindLink("agg0--core1"), fabric::LinkState::kDown);
  EXPECT_EQ(ProofOf(dead), Proof::kNone);
  fabric::TopologySpec spec = Pods(2, 4).Spec();
  spec.links.back().rate.value *= 2;
  EXPECT_EQ(ProofOf(*fabric::Topology::Build(spec)), Proof::kNone);
}

}  // namespace
}  // namespace espalier::controller
