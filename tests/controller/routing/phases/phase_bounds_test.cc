#include "controller/routing/phases/phase_bounds.h"

#include <gtest/gtest.h>

#include "tests/controller/routing/phases/phase_oracle.h"

namespace espalier::controller {
namespace {

PhaseBounds BoundsOf(const FabricView& view, const PhaseCase& input) {
  return ComputePhaseBounds(PhaseProblem(view, input.base, input.flows, input.jobs));
}

TEST(PhaseBounds, AddTheLargestPhaseOfEachJob) {
  const auto fabric = Fabric::LeafSpine(2, 4);
  PhaseCase input;
  for (int i = 0; i < 6; ++i) input.Add(0, 1 + static_cast<std::uint32_t>(i) % 3);
  input.jobs = {{{{0, 1}, {2}}}, {{{3}, {4, 5}}}};
  EXPECT_EQ(BoundsOf(fabric->view, input).all, (Load{2, 1}));
  input.jobs = {{{{0, 1}, {2}, {3}, {4}, {5}}}};
  EXPECT_EQ(BoundsOf(fabric->view, input).all, (Load{1, 1}));
}

TEST(PhaseBounds, CountBaseLoadsAndUnmovableFlows) {
  const auto fabric = Fabric::LeafSpine(2, 3);
  PhaseCase input;
  const auto fixed = input.Add(0, 1, 0);
  const auto moving = input.Add(0, 2, 0);
  input.flows[fixed].movable = false;
  input.jobs = {{{{fixed, moving}}}};
  EXPECT_EQ(BoundsOf(fabric->view, input).all, (Load{1, 1}));
  input.base.assign(fabric->view.capacities().size(), 0);
  input.base[fabric->view.clos()->up[1]] = kLoadUnit / 2;
  EXPECT_EQ(BoundsOf(fabric->view, input).all, (Load{3, 2}));
  // A link that is loaded beyond all need does not raise the bound of the others.
  input.base[fabric->view.clos()->up[0]] = 7 * kLoadUnit;
  EXPECT_EQ(BoundsOf(fabric->view, input).all, (Load{3, 2}));
}

TEST(PhaseBounds, GiveEachLeafItsEvenShare) {
  const auto fabric = Fabric::LeafSpine(2, 4);
  PhaseCase input;
  for (int i = 0; i < 4; ++i) input.Add(0, 1 + static_cast<std::uint32_t>(i) % 3);
  input.Add(2, 3);
  input.jobs = {{{{0, 1, 2, 3, 4}}}};
  const PhaseBounds bounds = BoundsOf(fabric->view, input);
  const Clos& clos = *fabric->view.clos();
  EXPECT_EQ(bounds.even_share[clos.up[0]], 2 * kLoadUnit);
  EXPECT_EQ(bounds.even_share[clos.up[4]], kLoadUnit);
}

TEST(PhaseBounds, BoundEachPhaseAlone) {
  const auto fabric = Fabric::LeafSpine(2, 4);
  PhaseCase input;
  for (int i = 0; i < 6; ++i) input.Add(0, 1 + static_cast<std::uint32_t>(i) % 3);
  input.flows[5].path = 0;
  input.flows[5].movable = false;
  input.jobs = {{{{0, 1, 2}, {3}}}, {{{4, 5}}}};
  EXPECT_EQ(BoundsOf(fabric->view, input).alone, (std::vector<Load>{{2, 1}, {1, 1}, {1, 1}}));
  // Beside the base load, three flows fit best with two on the other link.
  input.base.assign(fabric->view.capacities().size(), 0);
  input.base[fabric->view.clos()->up[0]] = kLoadUnit;
  EXPECT_EQ(BoundsOf(fabric->view, input).alone, (std::vector<Load>{{2, 1}, {1, 1}, {1, 1}}));
  input.base[fabric->view.clos()->up[1]] = kLoadUnit / 2;
  EXPECT_EQ(BoundsOf(fabric->view, input).alone, (std::vector<Load>{{5, 2}, {3, 2}, {3, 2}}));
}

TEST(PhaseBounds, ConvertLoadsToUnits) {
  const auto fabric = Fabric::LeafSpine(2, 3);
  const std::uint32_t link = fabric->view.clos()->up[0];
  EXPECT_EQ(UnitsAtMost(fabric->view, {3, 2}, link), 3 * kLoadUnit / 2);
  EXPECT_EQ(UnitsBelow(fabric->view, {3, 2}, link), 3 * kLoadUnit / 2 - 1);
}

}  // namespace
}  // namespace espalier::controller
