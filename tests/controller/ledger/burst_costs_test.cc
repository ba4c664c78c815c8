// Tests what a burst costs by each scheme, against enumeration of all choices of paths.
#include "controller/ledger/burst_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "common/base/random.h"
#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

// A burst of so many bytes takes a second on a link of the fabric.
double SecondOf(const Fabric& fabric) { return static_cast<double>(fabric.view.unit_bps()) / 8; }

BurstFlow FlowOf(std::uint32_t source, std::uint32_t destination, double bytes, std::uint64_t key) {
  BurstFlow flow{.source = source, .destination = destination, .key = key, .bytes = bytes};
  flow.paths.fill(kNoPath);
  return flow;
}

double MeanOf(const BurstCosts& costs, Scheme scheme) {
  const auto& seconds = *costs.seconds[static_cast<std::size_t>(scheme)];
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / BurstCosts::kDraws;
}

// The same flows with other draws.
std::vector<BurstFlow> WithKeys(std::vector<BurstFlow> flows, std::uint64_t seed) {
  for (BurstFlow& flow : flows) flow.key = Mix64(flow.key + (seed << 20U) + 1);
  return flows;
}

// The mean over all choices of paths, of the time of the most loaded link with one of the first
// `own` flows, if each of `parts` parts of a flow takes any spine.
double Enumerate(const Fabric& fabric, const std::vector<BurstFlow>& flows, std::size_t own,
                 std::size_t parts, bool least = false) {
  const Clos& clos = *fabric.view.clos();
  const std::size_t choices = flows.size() * parts;
  std::size_t all = 1;
  for (std::size_t i = 0; i < choices; ++i) all *= clos.spines;
  double sum = 0;
  double smallest = 1e300;
  for (std::size_t code = 0; code < all; ++code) {
    std::vector<double> bytes(fabric.view.capacities().size());
    std::vector<bool> is_own(bytes.size());
    std::size_t rest = code;
    for (std::size_t i = 0; i < choices; ++i, rest /= clos.spines) {
      const BurstFlow& flow = flows[i / parts];
      for (const std::uint32_t link :
           {clos.up[flow.source * clos.spines + rest % clos.spines],
            clos.down[flow.destination * clos.spines + rest % clos.spines]}) {
        bytes[link] += flow.bytes / static_cast<double>(parts);
        is_own[link] = is_own[link] || i / parts < own;
      }
    }
    double longest = 0;
    for (std::size_t link = 0; link < bytes.size(); ++link) {
      if (is_own[link]) longest = std::max(longest, bytes[link] / SecondOf(fabric));
    }
    sum += longest;
    smallest = std::min(smallest, longest);
  }
  return least ? smallest : sum / static_cast<double>(all);
}

// The mean of many draws, each with other keys.
double Drawn(Fabric& fabric, const std::vector<BurstFlow>& flows, std::size_t own, Scheme scheme) {
  constexpr std::uint64_t kRepetitions = 250;
  BurstCostModel model(fabric.view);
  double sum = 0;
  for (std::uint64_t seed = 0; seed < kRepetitions; ++seed) {
    sum += MeanOf(model.Compute(WithKeys(flows, seed), own), scheme);
  }
  return sum / kRepetitions;
}

TEST(BurstCosts, AreTheMeanOfAllChoicesByEcmp) {
  const auto fabric = Fabric::LeafSpine(3, 4);
  const double unit = SecondOf(*fabric);
  const std::vector<BurstFlow> flows = {FlowOf(0, 1, unit, 1), FlowOf(0, 2, unit, 2),
                                        FlowOf(1, 2, 2 * unit, 3), FlowOf(3, 1, unit / 2, 4),
                                        FlowOf(0, 1, unit, 5)};
  for (const std::size_t own : {std::size_t{5}, std::size_t{2}}) {
    const double expected = Enumerate(*fabric, flows, own, 1);
    EXPECT_NEAR(Drawn(*fabric, flows, own, Scheme::kEcmp), expected, 0.02 * expected) << own;
  }
}

TEST(BurstCosts, AreTheMeanOfAllChoicesOverFourQueuePairs) {
  const auto fabric = Fabric::LeafSpine(2, 3);
  const double unit = SecondOf(*fabric);
  const std::vector<BurstFlow> flows = {FlowOf(0, 1, unit, 1), FlowOf(0, 2, unit, 2),
                                        FlowOf(1, 2, unit, 3)};
  const double expected = Enumerate(*fabric, flows, 3, 4);
  EXPECT_NEAR(Drawn(*fabric, flows, 3, Scheme::kEcmp4), expected, 0.02 * expected);
  EXPECT_LT(Drawn(*fabric, flows, 3, Scheme::kEcmp16), Drawn(*fabric, flows, 3, Scheme::kEcmp4));
}

TEST(BurstCosts, ReachTheBestOfAllChoicesByTheOptimum) {
  const auto fabric = Fabric::LeafSpine(3, 3);
  const double unit = SecondOf(*fabric);
  BurstCostModel model(fabric->view);
  for (const std::uint64_t seed : SeedsToTry(1, 50)) {
    SCOPED_TRACE(testing::Message() << "ESPALIER_SEED=" << seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    std::vector<BurstFlow> flows;
    for (std::uint64_t i = 0; i < 7; ++i) {
      const auto source = static_cast<std::uint32_t>(random() % 3);
      flows.push_back(
          FlowOf(source, (source + 1 + static_cast<std::uint32_t>(random() % 2)) % 3, unit, i + 1));
    }
    const BurstCosts costs = model.Compute(flows, flows.size());
    EXPECT_NEAR(MeanOf(costs, Scheme::kOptimum), Enumerate(*fabric, flows, flows.size(), 1, true),
                1e-9);
    EXPECT_TRUE(costs.is_proven);
    EXPECT_GE(MeanOf(costs, Scheme::kEcmp), MeanOf(costs, Scheme::kOptimum) - 1e-9);
  }
}

TEST(BurstCosts, AreExactWherePathsAreKnown) {
  const auto fabric = Fabric::LeafSpine(4, 3);
  const double unit = SecondOf(*fabric);
  std::vector<BurstFlow> flows = {FlowOf(0, 1, unit, 1), FlowOf(0, 2, unit, 2),
                                  FlowOf(1, 2, unit, 3)};
  for (BurstFlow& flow : flows) {
    flow.own_path = 2;
    flow.paths[0] = 1;
  }
  flows[2].paths[0] = 0;
  BurstCostModel model(fabric->view);
  const BurstCosts costs = model.Compute(flows, 3);
  EXPECT_EQ(costs.crossing, 3U);
  EXPECT_EQ(costs.known, 3U);
  for (const double seconds : *costs.seconds[static_cast<std::size_t>(Scheme::kEcmp)]) {
    EXPECT_DOUBLE_EQ(seconds, 2);
  }
  for (const double seconds : *costs.seconds[static_cast<std::size_t>(Scheme::kPresent)]) {
    EXPECT_DOUBLE_EQ(seconds, 2);
  }
  EXPECT_DOUBLE_EQ(MeanOf(costs, Scheme::kOptimum), 1);
  // One that is not known is drawn; the others stay.
  flows[1].own_path = kNoPath;
  const BurstCosts drawn = model.Compute(flows, 3);
  EXPECT_EQ(drawn.known, 2U);
  EXPECT_GT(MeanOf(drawn, Scheme::kEcmp), 1);
  EXPECT_LT(MeanOf(drawn, Scheme::kEcmp), 2);
}

// Another job's flows make a link of the job slower, and do not count elsewhere.
TEST(BurstCosts, CountOthersOnTheLinksOfTheJob) {
  const auto fabric = Fabric::LeafSpine(2, 4);
  const double unit = SecondOf(*fabric);
  std::vector<BurstFlow> flows = {FlowOf(0, 1, unit, 1), FlowOf(0, 2, unit, 2),
                                  FlowOf(3, 2, 9 * unit, 3)};
  flows[0].own_path = 0;
  flows[1].own_path = 0;
  flows[2].own_path = 1;
  BurstCostModel model(fabric->view);
  EXPECT_DOUBLE_EQ(MeanOf(model.Compute(flows, 1), Scheme::kEcmp), 2);
  flows[1].own_path = 1;
  EXPECT_DOUBLE_EQ(MeanOf(model.Compute(flows, 1), Scheme::kEcmp), 1);
}

TEST(BurstCosts, AreNoLessThanThoseOfTheNics) {
  const auto fabric = Fabric::LeafSpine(2, 3);
  const double unit = SecondOf(*fabric);
  const auto link = *fabric->topology.FindLink("h0--leaf0");
  const auto to_leaf = static_cast<std::uint32_t>(2 * link.Index());
  std::vector<BurstFlow> flows = {FlowOf(0, 1, unit, 1), FlowOf(0, 2, unit, 2),
                                  FlowOf(0, 0, unit, 3)};
  for (BurstFlow& flow : flows) flow.source_link = to_leaf;
  BurstCostModel model(fabric->view);
  const double nic = 3 * unit * 8 / static_cast<double>(fabric->view.capacities()[to_leaf]);
  const BurstCosts costs = model.Compute(flows, 3);
  EXPECT_EQ(costs.crossing, 2U);
  EXPECT_DOUBLE_EQ(MeanOf(costs, Scheme::kOptimum), std::max(1.0, nic));
}

TEST(BurstCosts, ImagineOneMoreSpineWhereAllLeavesHaveAllSpines) {
  const auto fabric = Fabric::LeafSpine(1, 3);
  const double unit = SecondOf(*fabric);
  const std::vector<BurstFlow> flows = {FlowOf(0, 1, unit, 1), FlowOf(0, 2, unit, 2)};
  EXPECT_DOUBLE_EQ(Drawn(*fabric, flows, 2, Scheme::kEcmp), 2);
  EXPECT_NEAR(Drawn(*fabric, flows, 2, Scheme::kOneMoreSpine), 1.5, 0.03);
  // In a fat-tree it is not modelled.
  Fabric tree(*fabric::BuildFatTree({.k = 4}));
  BurstCostModel model(tree.view);
  const std::vector<BurstFlow> across = {FlowOf(0, 7, 1e6, 1), FlowOf(1, 7, 1e6, 2)};
  const BurstCosts costs = model.Compute(across, 2);
  EXPECT_FALSE(costs.seconds[static_cast<std::size_t>(Scheme::kOneMoreSpine)].has_value());
  EXPECT_GE(MeanOf(costs, Scheme::kEcmp), MeanOf(costs, Scheme::kOptimum));
}

TEST(BurstCosts, DrawNoPathThatIsNotUsable) {
  const auto fabric = Fabric::LeafSpine(4, 3);
  fabric->FailSpine(0);
  fabric->FailSpine(1);
  fabric->FailSpine(3);
  const double unit = SecondOf(*fabric);
  const std::vector<BurstFlow> flows = {FlowOf(0, 1, unit, 1), FlowOf(0, 2, unit, 2)};
  BurstCostModel model(fabric->view);
  const BurstCosts costs = model.Compute(flows, 2);
  for (const double seconds : *costs.seconds[static_cast<std::size_t>(Scheme::kEcmp)]) {
    EXPECT_DOUBLE_EQ(seconds, 2);
  }
}

TEST(BurstCosts, AreTheSameForTheSameInput) {
  const auto fabric = Fabric::LeafSpine(4, 3);
  const std::vector<BurstFlow> flows = {FlowOf(0, 1, 1e6, 1), FlowOf(0, 2, 1e6, 2)};
  BurstCostModel one(fabric->view);
  BurstCostModel other(fabric->view);
  static_cast<void>(one.Compute(WithKeys(flows, 9), 2));  // leaves nothing behind
  EXPECT_EQ(one.Compute(flows, 2).seconds, other.Compute(flows, 2).seconds);
}

}  // namespace
}  // namespace espalier::controller
