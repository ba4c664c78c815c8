#include "controller/routing/occupancy/kempe_chains.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <random>

#include "tests/controller/routing/occupancy/test_tables.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

constexpr std::int64_t kManySteps = 1'000'000;
constexpr std::uint32_t kSpines = 6;

// How many subflows the chain moves that begins with the subflow on `spine` at this leaf and
// alternates with `other`, if links take one subflow each; none if one of them may not move. A slow
// oracle that scans all subflows for each step.
std::optional<std::size_t> LengthOfChain(Tables& tables, std::uint32_t leaf, bool receives,
                                         std::int32_t spine, std::int32_t other) {
  for (std::size_t length = 0;; ++length) {
    std::optional<SubflowId> on;
    for (const SubflowId subflow : tables.all()) {
      const SubflowState& state = tables.subflows()[subflow];
      if (state.route == spine && (receives ? state.destination : state.source) == leaf)
        on = subflow;
    }
    if (!on) return length;
    const SubflowState& state = tables.subflows()[*on];
    if (state.pinned || !tables.subflows().IsUsable(state, other)) return std::nullopt;
    leaf = receives ? state.source : state.destination;
    receives = !receives;
    std::swap(spine, other);
  }
}

// How many others the shortest Kempe chain moves to make room for a subflow (0: a spine is idle at
// both its leaves).
std::optional<std::size_t> ShortestByHand(Tables& tables, SubflowId subflow) {
  const SubflowState& state = tables.subflows()[subflow];
  const auto is_idle = [&](std::uint32_t leaf, bool sends, std::int32_t spine) {
    const LeafLink end{leaf, static_cast<std::uint32_t>(spine), sends};
    const std::uint32_t link = end.LinkIn(*tables.fabric().view.clos());
    return tables.fabric().view.capacities()[link] > 0 && tables.links().SubflowsOn(link).empty();
  };
  std::optional<std::size_t> best;
  const auto consider = [&](std::optional<std::size_t> length) {
    if (length && (!best || *length < *best)) best = length;
  };
  for (std::int32_t a = 0; a < static_cast<std::int32_t>(kSpines); ++a) {
    if (!is_idle(state.source, true, a)) continue;
    if (is_idle(state.destination, false, a)) return 0;
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(kSpines); ++b) {
      if (!is_idle(state.destination, false, b)) continue;
      if (tables.subflows().IsUsable(state, a)) {
        consider(LengthOfChain(tables, state.destination, true, a, b));
      }
      if (tables.subflows().IsUsable(state, b)) {
        consider(LengthOfChain(tables, state.source, false, b, a));
      }
    }
  }
  return best;
}

// As many whole flows as fit, one per link; some links are down, some subflows pinned or in
// progress.
void Fill(Tables& tables, std::mt19937& random, std::size_t tries) {
  tables.SetAllLimits(kLoadUnit);
  for (std::size_t i = 0; i < tries; ++i) {
    const auto [source, destination] = tables.RandomPair(random);
    const SubflowId subflow = tables.Add(source, destination);
    const auto route = static_cast<std::int32_t>(random() % kSpines);
    if (!tables.links().HasRoomOn(tables.subflows()[subflow], route)) {
      tables.Remove(subflow);
      continue;
    }
    tables.links().MoveTo(subflow, route);
    tables.subflows()[subflow].pinned = random() % 16 == 0;
    tables.subflows()[subflow].in_progress = random() % 2 == 0;
  }
}

// Runs the body for each seed until it fails. The body returns how many relevant cases it had;
// there must be more than `least` in all.
void ForEachSeed(std::uint64_t seeds, int least,
                 const std::function<int(std::uint64_t seed, std::mt19937& random)>& body) {
  int found = 0;
  for (const std::uint64_t seed : SeedsToTry(1, seeds)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    found += body(seed, random);
    if (testing::Test::HasFatalFailure()) return;
  }
  if (SeedsToTry(1, 2).size() == 2) {
    EXPECT_GT(found, least);
  }
}

// Puts the subflow where the chains have made room for it, and checks that all limits are kept.
void TakeRoom(Tables& tables, const KempeChains& chains, SubflowId subflow, std::int32_t route) {
  EXPECT_TRUE(tables.links().HasRoomOn(tables.subflows()[subflow], route));
  tables.links().MoveTo(subflow, route);
  tables.ExpectWithinLimits(chains.moves());
  tables.ExpectConsistent();
}

TEST(KempeChains, MakeRoomWheneverAChainOfTwoSpinesExists) {
  ForEachSeed(600, 150, [](std::uint64_t seed, std::mt19937& random) {
    int with_chain = 0;
    Tables tables(Fabric::LeafSpine(kSpines, 5 + static_cast<int>(seed % 5)),
                  [](SubflowId subflow) { return 10 + subflow.value() % 5; });
    if (seed % 3 == 0) tables.fabric().FailSome(random, 5);
    KempeChains chains(tables.fabric().view, tables.subflows(), tables.links());
    EXPECT_TRUE(chains.IsPossible());
    Fill(tables, random, 300);
    for (int i = 0; i < 4 && !testing::Test::HasFatalFailure(); ++i) {
      const auto [source, destination] = tables.RandomPair(random);
      const SubflowId subflow = tables.Add(source, destination);
      const auto expected = ShortestByHand(tables, subflow);
      const auto before = tables.Routes();
      std::int64_t steps = kManySteps;
      const std::int32_t route = chains.MakeRoom(subflow, {}, steps);
      EXPECT_LT(steps, kManySteps);
      if (route < 0) {
        EXPECT_FALSE(expected);
        EXPECT_EQ(tables.Routes(), before);
        tables.Remove(subflow);
        continue;
      }
      // It may be shorter: a subflow can move to a third spine that is idle at both its leaves.
      if (expected) {
        EXPECT_LE(chains.moves().size(), 2 * *expected);
      }
      if (expected == 0U) {
        EXPECT_TRUE(chains.moves().empty());
      }
      with_chain += chains.moves().empty() ? 0 : 1;
      for (const SubflowMove& move : chains.moves())
        EXPECT_FALSE(tables.subflows()[move.subflow].pinned);
      TakeRoom(tables, chains, subflow, route);
    }
    return with_chain;
  });
}

// Parts of flows, several per link: every chain found fits, and keeps to the budget.
TEST(KempeChains, KeepToLimitsAndBudgetIfLinksTakeSeveral) {
  ForEachSeed(400, 200, [](std::uint64_t /*seed*/, std::mt19937& random) {
    int found = 0;
    Tables tables(Fabric::LeafSpine(3, 5), [](SubflowId subflow) { return subflow.value(); });
    tables.SetAllLimits(2 * kLoadUnit);
    KempeChains chains(tables.fabric().view, tables.subflows(), tables.links());
    for (int i = 0; i < 150 && !testing::Test::HasFatalFailure(); ++i) {
      const auto [source, destination] = tables.RandomPair(random);
      const SubflowId subflow = tables.Add(source, destination, kLoadUnit >> random() % 2);
      tables.subflows()[subflow].in_progress = random() % 2 == 0;
      const MoveBudget budget{.moves = random() % 4,
                              .in_progress = random() % 3,
                              .bytes = static_cast<std::int64_t>(random() % 60)};
      std::int64_t steps = kManySteps;
      const std::int32_t route = chains.MakeRoom(subflow, budget, steps);
      if (route < 0) {
        tables.Remove(subflow);
        continue;
      }
      found += chains.moves().empty() ? 0 : 1;
      MoveBudget left = budget;
      for (const SubflowMove& move : chains.moves()) {
        EXPECT_TRUE(tables.subflows().CanMove(move.subflow, left));
        tables.subflows().Charge(move.subflow, left);
      }
      TakeRoom(tables, chains, subflow, route);
    }
    return found;
  });
}

TEST(KempeChains, RelieveALinkByOneSubflowIfALinkOfItsLeafHasRoom) {
  ForEachSeed(300, 200, [](std::uint64_t seed, std::mt19937& random) {
    Tables tables(Fabric::LeafSpine(kSpines, 6));
    KempeChains chains(tables.fabric().view, tables.subflows(), tables.links());
    Fill(tables, random, 60);
    const auto [source, destination] = tables.RandomPair(random);
    const SubflowId subflow =
        tables.AddOn(source, destination, static_cast<std::int32_t>(seed % kSpines));
    const SubflowState& state = tables.subflows()[subflow];
    const std::uint32_t link = *tables.subflows().LinksOf(state, state.route).begin();
    const std::size_t before = tables.links().SubflowsOn(link).size();
    std::int64_t steps = kManySteps;
    const auto moves = chains.Relieve(link, {}, steps);
    EXPECT_EQ(tables.links().SubflowsOn(link).size(), before - (moves.empty() ? 0 : 1));
    for (const SubflowMove& move : moves) EXPECT_EQ(tables.subflows()[move.subflow].route, move.to);
    tables.ExpectConsistent();
    return moves.empty() ? 0 : 1;
  });
}

TEST(KempeChains, RequireAClosWithEqualLinks) {
  auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  for (fabric::Link& link : spec.links) {
    if (link.id == "leaf0--spine1") link.rate = BitsPerSecond{link.rate.value / 2};
  }
  Tables unequal(std::make_unique<Fabric>(std::move(spec)));
  EXPECT_FALSE(
      KempeChains(unequal.fabric().view, unequal.subflows(), unequal.links()).IsPossible());
  unequal.fabric().Fail("leaf0--spine1");  // the others are equal
  EXPECT_TRUE(KempeChains(unequal.fabric().view, unequal.subflows(), unequal.links()).IsPossible());
  Tables deep(std::make_unique<Fabric>(*fabric::BuildFatTree({.k = 4})));
  EXPECT_FALSE(KempeChains(deep.fabric().view, deep.subflows(), deep.links()).IsPossible());
}

}  // namespace
}  // namespace espalier::controller
