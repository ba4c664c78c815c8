#include "controller/routing/exact/staged_paths.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "controller/routing/assigner.h"
#include "controller/routing/bounds/tier_loads.h"
#include "tests/common/fabric/clos_shape.h"
#include "tests/controller/routing/clos_checker.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using fabric::ClosShape;

ClosShape RandomShape(std::mt19937& random) {
  const auto one_to = [&](std::uint32_t most) { return static_cast<int>(1 + random() % most); };
  ClosShape shape;
  const int kind = one_to(10);
  if (kind <= 7) {
    shape.children = {one_to(4), one_to(4)};
    shape.widths = {one_to(3), one_to(3)};
  } else if (kind <= 8) {
    shape.children = {one_to(2), one_to(2), one_to(3)};
    shape.widths = {one_to(2), one_to(2), one_to(2)};
  } else {
    shape.children = {1 + one_to(5)};
    shape.widths = {one_to(4)};
  }
  shape.parts = random() % 8 == 0 ? 2 : 1;
  shape.has_roles = random() % 2 == 0;
  if (random() % 4 == 0) {
    std::int64_t rate = 1'000;
    for (std::size_t tier = 0; tier < shape.widths.size(); ++tier) {
      shape.rates.push_back(rate);
      rate *= 1 << (random() % 3);
    }
  }
  return shape;
}

// By pattern: anything; each leaf sends and receives equally much, with one more for some; only
// between parts of the fabric that share no pod; only between two leaves; one pair many times.
Commodities RandomDemand(std::mt19937& random, const Fabric& fabric) {
  const std::uint32_t leaves = fabric.view.leaf_count();
  const auto any = [&] { return static_cast<std::uint32_t>(random() % leaves); };
  const auto pod_of = [&](std::uint32_t leaf) {
    return fabric.view.folded_clos()->Ancestor(fabric.view.FoldedLeaf(leaf), 1);
  };
  Commodities flows;
  const std::uint32_t subflows = random() % 8 == 0 ? 2 : 1;
  const std::size_t count = 1 + random() % (subflows == 1 ? 10 : 5);
  const auto pattern = random() % 5;
  std::uint32_t from = any();
  std::uint32_t to = any();
  for (std::size_t i = 0; i < count; ++i) {
    if (pattern != 3) to = any();
    if (pattern == 0 || pattern == 2 || pattern == 4) from = any();
    if (pattern == 1) from = static_cast<std::uint32_t>(i) % leaves;
    if (pattern == 4) to = (from + 1) % leaves;
    if (pattern == 2 && pod_of(from) == pod_of(to)) continue;
    flows.push_back({.source = from, .destination = to, .subflows = subflows});
  }
  return flows;
}

// A dead tier-1 plane of one part, a dead top switch, a dead pod, or a few dead links.
void KillSome(std::mt19937& random, Fabric& fabric) {
  const auto kind = random() % 12;
  const fabric::FoldedClos& clos = *fabric.view.folded_clos();
  const auto kill = [&](std::uint32_t directed) {
    fabric.topology.SetLinkState(fabric::DirectedLink::FromIndex(directed).link,
                                 fabric::LinkState::kDown);
  };
  const auto kill_label = [&](const fabric::FoldedClos::Block& block, std::uint32_t label) {
    for (std::uint32_t child = 0; child < block.children; ++child) {
      kill(clos.up[block.first_link + std::size_t{label} * block.children + child]);
    }
  };
  if (kind == 0) {
    for (const auto& block : clos.blocks) {
      if (block.tier == 1) kill_label(block, 0);
    }
  } else if (kind == 1) {
    const auto& top = clos.blocks.back();
    kill_label(top, static_cast<std::uint32_t>(random() % top.labels));
  } else if (kind == 2) {
    for (const auto& block : clos.blocks) {
      if (block.tier != 1) continue;
      for (std::uint32_t label = 0; label < block.labels; ++label) kill_label(block, label);
      break;
    }
  } else if (kind == 3) {
    fabric.FailSome(random, 10);
  }
  fabric.view.Refresh();
}

// The tiers of links, by union-find and counting alone; requires that all links are up.
class TierCounter {
 public:
  TierCounter(Fabric& fabric, const Commodities& flows) : fabric_(fabric), flows_(flows) {
    for (const fabric::Node& node : fabric.topology.nodes()) {
      const auto id = *fabric.topology.FindNode(node.id);
      if (node.kind == fabric::NodeKind::kSwitch) {
        tiers_ = std::max(tiers_, static_cast<std::size_t>(fabric.paths.Tier(id)));
      }
    }
  }

  std::size_t tiers() const { return tiers_; }

  // By tier of the lower switch: the greatest of the units that links carry.
  std::vector<std::int64_t> MostOf(const std::vector<std::int64_t>& units) const {
    std::vector<std::int64_t> most(tiers_);
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (units[i] == 0) continue;
      const auto hop = fabric::DirectedLink::FromIndex(i);
      const auto tier =
          static_cast<std::size_t>(std::min(fabric_.paths.Tier(fabric_.topology.From(hop)),
                                            fabric_.paths.Tier(fabric_.topology.To(hop))));
      most[tier] = std::max(most[tier], units[i]);
    }
    return most;
  }

  // The least that the links above the blocks of a tier can carry, from the flows that leave each
  // and the number of its links up; and the most links down per link up, times their rates.
  std::int64_t BoundOf(std::size_t tier) {
    const std::vector<std::size_t> root = BlocksOf(tier);
    std::vector<std::int64_t> links(root.size());
    for (const fabric::Link& link : fabric_.topology.links()) {
      if (!IsAbove(link, tier)) continue;
      const fabric::NodeId lower =
          fabric_.paths.Tier(link.a) < fabric_.paths.Tier(link.b) ? link.a : link.b;
      ++links[root[lower.Index()]];
    }
    std::vector<std::int64_t> out(root.size());
    std::vector<std::int64_t> in(root.size());
    std::int64_t bound = 0;
    for (const Commodity& flow : flows_) {
      const std::size_t from = root[fabric_.view.LeafNode(flow.source).Index()];
      const std::size_t to = root[fabric_.view.LeafNode(flow.destination).Index()];
      if (from == to ||
          fabric_.paths
              .Between(fabric_.view.LeafNode(flow.source), fabric_.view.LeafNode(flow.destination))
              .empty())
        continue;
      out[from] += flow.subflows;
      in[to] += flow.subflows;
      bound = std::max({bound, (out[from] + links[from] - 1) / links[from],
                        (in[to] + links[to] - 1) / links[to]});
    }
    return bound * (kLoadUnit / flows_.front().subflows);
  }

  // Whether all flows that cross the fabric climb equally high.
  bool HaveOneHeight() {
    std::vector<std::size_t> crossing;
    for (std::size_t tier = 0; tier < tiers_; ++tier) {
      const auto root = BlocksOf(tier);
      crossing.push_back(
          static_cast<std::size_t>(std::ranges::count_if(flows_, [&](const auto& flow) {
            const auto from = fabric_.view.LeafNode(flow.source);
            const auto to = fabric_.view.LeafNode(flow.destination);
            return root[from.Index()] != root[to.Index()] &&
                   !fabric_.paths.Between(from, to).empty();
          })));
    }
    return std::ranges::all_of(crossing,
                               [&](std::size_t n) { return n == 0 || n == crossing.front(); });
  }

 private:
  bool IsAbove(const fabric::Link& link, std::size_t tier) const {
    if (!fabric_.topology.IsSwitchToSwitch(*fabric_.topology.FindLink(link.id))) return false;
    return static_cast<std::size_t>(
               std::min(fabric_.paths.Tier(link.a), fabric_.paths.Tier(link.b))) == tier;
  }
  // By node: a node of its block of switches up to this tier.
  std::vector<std::size_t> BlocksOf(std::size_t tier) const {
    std::vector<std::size_t> root(fabric_.topology.nodes().size());
    for (std::size_t i = 0; i < root.size(); ++i) root[i] = i;
    bool changed = true;
    while (changed) {
      changed = false;
      for (const fabric::Link& link : fabric_.topology.links()) {
        bool is_within = false;
        for (std::size_t t = 0; t < tier; ++t) is_within = is_within || IsAbove(link, t);
        auto& a = root[link.a.Index()];
        auto& b = root[link.b.Index()];
        if (!is_within || a == b) continue;
        a = b = std::min(a, b);
        changed = true;
      }
    }
    return root;
  }

  Fabric& fabric_;
  const Commodities& flows_;
  std::size_t tiers_ = 0;
};

struct Tally {
  std::map<Proof, int> proofs;
  int undecided = 0;
};

void CheckOne(std::uint32_t seed, Tally& tally) {
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Fabric fabric(RandomShape(random).Build(seed));
  ASSERT_TRUE(fabric.view.folded_clos().has_value());
  KillSome(random, fabric);
  const Commodities flows = RandomDemand(random, fabric);
  const ClosChecker checker(fabric);
  Assigner assigner(fabric.view);
  const Assignment greedy = assigner.Greedy(flows);
  const Assignment& result = assigner.Optimal(flows);
  const auto units = checker.Recount(flows, result);
  ASSERT_TRUE(units.has_value()) << "a flow without, or with an unusable path";
  ASSERT_TRUE(checker.Recount(flows, greedy).has_value());
  const std::int64_t most = checker.MaxOf(*units);
  EXPECT_EQ(result.max_load, checker.ToLoad(most));
  EXPECT_LE(result.lower_bound, result.max_load);
  EXPECT_LE(result.max_load, greedy.max_load);
  EXPECT_EQ(result.lower_bound == result.max_load, result.proof != Proof::kNone);
  ++tally.proofs[result.proof];
  if (most == 0) return;
  // No assignment is below the bound, and none below a result with a proof.
  const auto can_be_lower = checker.CanBeBelow(flows, most, 400'000);
  if (!can_be_lower) {
    ++tally.undecided;
  } else if (*can_be_lower) {
    EXPECT_EQ(result.proof, Proof::kNone);
  }
}

// Which theorem must apply if all links are up.
Proof ExpectedProof(const ClosShape& shape, bool has_one_height) {
  if (shape.children.size() == 1) return Proof::kTwoTiers;
  bool is_wide = true;
  for (std::size_t t = 0; t + 1 < shape.children.size(); ++t) {
    const std::int64_t below = shape.rates.empty() ? 1 : shape.rates[t];
    const std::int64_t above = shape.rates.empty() ? 1 : shape.rates[t + 1];
    is_wide = is_wide && shape.widths[t + 1] * above >= shape.children[t] * below;
  }
  if (is_wide) return Proof::kNotNarrower;
  return has_one_height ? Proof::kOneHeight : Proof::kNone;
}

TEST(StagedPaths, MeetTheBoundOfEveryTierWhereTheTheoremsSaySo) {
  int of_one_height = 0;
  for (const auto seed : SeedsToTry(1, 1'000)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    ClosShape shape = RandomShape(random);
    Fabric fabric(shape.Build(static_cast<std::uint32_t>(seed)));
    Commodities flows;
    while (flows.size() < 4 * fabric.view.leaf_count()) {
      const Commodities more = RandomDemand(random, fabric);
      flows.insert(flows.end(), more.begin(), more.end());
      for (Commodity& flow : flows) flow.subflows = flows.front().subflows;
      if (random() % 4 == 0) break;
    }
    if (flows.empty()) continue;
    if (random() % 3 == 0) {  // only those that leave their pods
      std::erase_if(flows, [&](const Commodity& flow) {
        const auto& clos = *fabric.view.folded_clos();
        return clos.Ancestor(fabric.view.FoldedLeaf(flow.source), 1) ==
               clos.Ancestor(fabric.view.FoldedLeaf(flow.destination), 1);
      });
    }
    Assignment result;
    result.Clear(flows);
    StagedPaths staged(fabric.view);
    if (flows.empty()) continue;
    ASSERT_TRUE(staged.Assign(flows, result));
    const ClosChecker checker(fabric);
    const auto units = checker.Recount(flows, result);
    ASSERT_TRUE(units.has_value());
    EXPECT_EQ(result.max_load, checker.ToLoad(checker.MaxOf(*units)));
    if (result.max_load == Load{}) continue;

    TierCounter counter(fabric, flows);
    const bool has_one_height = counter.HaveOneHeight();
    const Proof proof = ExpectedProof(shape, has_one_height);
    if (proof != Proof::kNone) {
      EXPECT_EQ(result.proof, proof);
    }
    const auto most = counter.MostOf(*units);
    const auto bounds = ComputeTierBounds(fabric.view, flows).tiers;
    const auto loads = ComputeTierLoads(fabric.view, flows, result);
    Load highest;
    for (std::size_t tier = 0; tier < counter.tiers(); ++tier) {
      const std::int64_t rate = shape.rates.empty() ? 1'000 : shape.rates[tier];
      EXPECT_EQ(MakeLoad(fabric.view, most[tier], rate), loads[tier]) << "tier " << tier;
      EXPECT_EQ(MakeLoad(fabric.view, counter.BoundOf(tier), rate), bounds[tier])
          << "tier " << tier;
      highest = std::max(highest, bounds[tier]);
      if (has_one_height) {
        EXPECT_EQ(most[tier], counter.BoundOf(tier)) << "tier " << tier;
      }
      // Flows of each height are treated apart at worst.
      EXPECT_LE(most[tier],
                counter.BoundOf(tier) + static_cast<std::int64_t>(counter.tiers()) * kLoadUnit);
    }
    if (proof != Proof::kNone) {
      EXPECT_EQ(result.max_load, highest);
    }
    of_one_height += has_one_height ? 1 : 0;
  }
  EXPECT_GT(of_one_height, 200);
}

TEST(StagedPaths, MatchExhaustiveSearchOnRandomFabrics) {
  constexpr int kFabrics = 3'000;
  Tally tally;
  for (const auto seed : SeedsToTry(1, kFabrics)) {
    CheckOne(static_cast<std::uint32_t>(seed), tally);
    if (testing::Test::HasFatalFailure()) return;
  }
  // Few searches end without an answer, and every kind of proof occurs.
  EXPECT_LT(tally.undecided, kFabrics / 100);
  for (const Proof proof :
       {Proof::kTwoTiers, Proof::kNotNarrower, Proof::kOneHeight, Proof::kBoundMet}) {
    EXPECT_GT(tally.proofs[proof], kFabrics / 20) << ProofText(proof);
  }
}

// Three pods of two leaves, two planes of one core, all links up: the smallest gap of the bound.
// Ten flows, of which each leaf sends and receives at most two, and each pod at most two to others.
TEST(StagedPaths, TellTheGapWhereFlowsOfBothKindsDoNotFit) {
  Fabric fabric(ClosShape{.children = {2, 3}, .widths = {2, 1}}.Build());
  const ClosChecker checker(fabric);
  Assigner assigner(fabric.view);
  std::mt19937 random(1);
  int gaps = 0;
  for (int round = 0; round < 3'000 && gaps < 3; ++round) {
    std::vector<int> out(6), in(6), out_of_pod(3), into_pod(3);
    Commodities flows;
    for (int i = 0; i < 60; ++i) {
      const std::size_t from = random() % 6;
      const std::size_t to = random() % 6;
      const std::size_t a = from / 2;
      const std::size_t b = to / 2;
      if (from == to || out[from] == 2 || in[to] == 2) continue;
      if (a != b && (out_of_pod[a] == 2 || into_pod[b] == 2)) continue;
      ++out[from];
      ++in[to];
      if (a != b) {
        ++out_of_pod[a];
        ++into_pod[b];
      }
      flows.push_back({.source = static_cast<std::uint32_t>(from),
                       .destination = static_cast<std::uint32_t>(to)});
    }
    const Assignment& result = assigner.Optimal(flows);
    const auto units = checker.Recount(flows, result);
    ASSERT_TRUE(units.has_value());
    EXPECT_EQ(result.max_load, checker.ToLoad(checker.MaxOf(*units)));
    EXPECT_EQ(result.lower_bound, (Load{1, 1}));
    EXPECT_EQ(result.proof == Proof::kNone, result.max_load != (Load{1, 1}));
    EXPECT_LE(result.max_load, (Load{2, 1}));
    const auto can_be_lower = checker.CanBeBelow(flows, checker.MaxOf(*units), 1'000'000);
    ASSERT_TRUE(can_be_lower.has_value());
    if (result.proof == Proof::kNone && !*can_be_lower) ++gaps;
  }
  EXPECT_GE(gaps, 1);
}

TEST(StagedPaths, KeepSeparatePartsApart) {
  Fabric fabric(ClosShape{.children = {2}, .widths = {3}, .parts = 4}.Build());
  Commodities flows;
  for (std::uint32_t leaf = 0; leaf < 8; ++leaf) {
    for (int i = 0; i < 3; ++i) flows.push_back({.source = leaf, .destination = leaf ^ 1U});
  }
  flows.push_back({.source = 0, .destination = 2});  // another part
  Assigner assigner(fabric.view);
  const Assignment& result = assigner.Optimal(flows);
  EXPECT_EQ(result.max_load, (Load{1, 1}));
  EXPECT_EQ(result.proof, Proof::kTwoTiers);
  EXPECT_EQ(result.paths.back(), kNoPath);
  EXPECT_TRUE(ClosChecker(fabric).Recount(flows, result).has_value());
}

// The greedy search by labels must choose what a search of all listed paths chooses.
TEST(LabelSearch, FindsTheFirstOfTheLeastLoadedPaths) {
  for (const auto seed : SeedsToTry(1, 300)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    Fabric fabric(RandomShape(random).Build(static_cast<std::uint32_t>(seed)));
    fabric.FailSome(random, 20);
    std::vector<std::int64_t> loads(fabric.view.capacities().size());
    for (auto& load : loads) load = static_cast<std::int64_t>(random() % 3);
    LabelSearch search(fabric.view);
    for (std::uint32_t a = 0; a < fabric.view.leaf_count(); ++a) {
      for (std::uint32_t b = 0; b < fabric.view.leaf_count(); ++b) {
        if (a == b) continue;
        std::int32_t best = kNoPath;
        double least = 0;
        const CandidatePaths& paths = fabric.view.Candidates(a, b);
        for (std::size_t path = 0; path < paths.size(); ++path) {
          double worst = 0;
          for (const std::uint32_t link : paths.Hops(path)) {
            worst = std::max(worst, static_cast<double>(loads[link]) /
                                        static_cast<double>(fabric.view.capacities()[link]));
          }
          if (!fabric.view.IsUsable(paths.Hops(path))) continue;
          if (best != kNoPath && worst >= least) continue;
          best = static_cast<std::int32_t>(path);
          least = worst;
        }
        ASSERT_EQ(search.LeastLoaded(loads, a, b), best);
      }
    }
  }
}

}  // namespace
}  // namespace espalier::controller
