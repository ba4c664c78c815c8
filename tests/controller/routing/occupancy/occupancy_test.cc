#include "controller/routing/occupancy/occupancy.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

constexpr std::int64_t kManySteps = 1'000'000;

// A Clos with missing links, in which path indices differ from spines.
std::unique_ptr<Fabric> MakeSparseClos(std::mt19937& random) {
  auto spec = *fabric::BuildLeafSpine({.spines = 4, .leaves = 5, .hosts_per_leaf = 1});
  std::erase_if(spec.links, [&](const fabric::Link& link) {
    return link.id.find("--spine") != std::string::npos && random() % 8 == 0;
  });
  return std::make_unique<Fabric>(std::move(spec));
}

class OccupancyOn {
 public:
  explicit OccupancyOn(std::unique_ptr<Fabric> fabric)
      : fabric_(std::move(fabric)), occupancy_(fabric_->view) {}

  Occupancy& occupancy() { return occupancy_; }
  FabricView& view() { return fabric_->view; }
  const std::set<SubflowId>& all() const { return all_; }

  SubflowId Add(std::mt19937& random, std::int64_t share) {
    const std::uint32_t leaves = view().leaf_count();
    const auto source = static_cast<std::uint32_t>(random() % leaves);
    const auto other = static_cast<std::uint32_t>(1 + random() % (leaves - 1));
    const SubflowId subflow = occupancy_.Add(source, (source + other) % leaves, share, false);
    all_.insert(subflow);
    return subflow;
  }
  void Remove(SubflowId subflow) {
    occupancy_.Remove(subflow);
    all_.erase(subflow);
  }
  std::span<const std::uint32_t> Hops(SubflowId subflow, std::int32_t path) {
    return view()
        .Candidates(occupancy_.SourceOf(subflow), occupancy_.DestinationOf(subflow))
        .Hops(static_cast<std::size_t>(path));
  }
  // The loads of all subflows, computed from the paths of PathTable alone.
  std::vector<std::int64_t> Loads() {
    std::vector<std::int64_t> loads(view().capacities().size());
    for (const SubflowId subflow : all_) {
      if (!occupancy_.HasPath(subflow)) continue;
      for (const auto link : Hops(subflow, occupancy_.PathOf(subflow))) {
        loads[link] += occupancy_.ShareOf(subflow);
      }
    }
    return loads;
  }
  std::int32_t LeastLoadedByHand(SubflowId subflow) {
    const std::vector<std::int64_t> loads = Loads();
    const auto& paths =
        view().Candidates(occupancy_.SourceOf(subflow), occupancy_.DestinationOf(subflow));
    std::int32_t best = kNoPath;
    Load least;
    for (std::size_t path = 0; path < paths.size(); ++path) {
      if (!view().IsUsable(paths.Hops(path))) continue;
      Load worst;
      for (const auto link : paths.Hops(path)) {
        const std::int64_t units = loads[link] + occupancy_.ShareOf(subflow);
        worst = std::max(worst, MakeLoad(view(), units, view().capacities()[link]));
      }
      if (best >= 0 && worst >= least) continue;
      best = static_cast<std::int32_t>(path);
      least = worst;
    }
    return best;
  }

 private:
  std::unique_ptr<Fabric> fabric_;
  Occupancy occupancy_;
  std::set<SubflowId> all_;
};

TEST(Occupancy, NumbersPathsAsThePathTableDoes) {
  int chains = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    OccupancyOn on(seed % 3 == 0 ? std::make_unique<Fabric>(*fabric::BuildFatTree({.k = 4}))
                                 : MakeSparseClos(random));
    Occupancy& occupancy = on.occupancy();
    occupancy.SetLimit({2, 1}, Occupancy::Bound::kAtMost);
    for (int i = 0; i < 60; ++i) {
      const SubflowId subflow = on.Add(random, kLoadUnit >> random() % 2);
      EXPECT_EQ(occupancy.LeastLoadedPath(subflow), on.LeastLoadedByHand(subflow));
      std::map<SubflowId, std::int32_t> paths;
      for (const SubflowId other : on.all()) paths[other] = occupancy.PathOf(other);
      const std::vector<std::int64_t> loads = occupancy.Loads();
      std::int64_t steps = kManySteps;
      const auto moves = occupancy.Insert(subflow, {}, steps);
      chains += moves.size() > 1 ? 1 : 0;
      for (const auto& move : moves) {
        EXPECT_EQ(paths[move.subflow], move.from);
        EXPECT_EQ(occupancy.PathOf(move.subflow), move.to);
        EXPECT_TRUE(
            std::ranges::equal(occupancy.LinksOf(move.subflow), on.Hops(move.subflow, move.to)));
      }
      if (moves.empty()) {
        const std::int32_t path = occupancy.LeastLoadedPath(subflow);
        occupancy.Place(subflow, path);
        EXPECT_EQ(occupancy.PathOf(subflow), path);
      }
      for (std::uint32_t link = 0; !moves.empty() && link < loads.size(); ++link) {
        // A link that was above its limit may stay there.
        if (occupancy.IsAboveLimit(link)) {
          EXPECT_LE(occupancy.LoadOf(link), loads[link]);
        }
      }
      ASSERT_EQ(occupancy.Loads(), on.Loads());
      if (on.all().size() > 30) on.Remove(*on.all().begin());
    }
  }
  if (SeedsToTry(1, 2).size() == 2) {
    EXPECT_GT(chains, 100);
  }
}

TEST(Occupancy, RelievesLinksUntilTheyAreWithinTheLimit) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    OccupancyOn on(Fabric::LeafSpine(4, 5));
    Occupancy& occupancy = on.occupancy();
    for (int i = 0; i < 20; ++i) occupancy.Place(on.Add(random, kLoadUnit), 0);
    occupancy.SetLimit({5, 1}, Occupancy::Bound::kBelow);
    std::int64_t steps = kManySteps;
    for (std::uint32_t link = 0; link < occupancy.link_count(); ++link) {
      EXPECT_TRUE(occupancy.Relieve(link, {.moves = 0}, steps).empty());
      while (occupancy.IsAboveLimit(link)) {
        const std::int64_t before = occupancy.LoadOf(link);
        ASSERT_FALSE(occupancy.Relieve(link, {}, steps).empty());
        ASSERT_LT(occupancy.LoadOf(link), before);
      }
    }
    ASSERT_EQ(occupancy.Loads(), on.Loads());
    EXPECT_LT(ComputeMaxLoad(on.view(), occupancy.Loads()), (Load{5, 1}));
  }
}

TEST(Occupancy, FindsIdlePathsOnlyInAClosWithEqualLinks) {
  OccupancyOn deep(std::make_unique<Fabric>(*fabric::BuildFatTree({.k = 4})));
  const SubflowId subflow = deep.occupancy().Add(0, 2, kLoadUnit, false);
  EXPECT_TRUE(deep.occupancy().InsertIdle(std::vector<SubflowId>{subflow}).empty());
  OccupancyOn flat(Fabric::LeafSpine(2, 3));
  EXPECT_TRUE(flat.occupancy().InsertIdle({}).empty());
  std::vector<SubflowId> starts;
  for (int i = 0; i < 3; ++i) starts.push_back(flat.occupancy().Add(0, 1, kLoadUnit, false));
  EXPECT_EQ(flat.occupancy().InsertIdle(starts).size(), 2U);
  EXPECT_EQ(flat.occupancy().PathOf(starts[0]), 0);
  EXPECT_EQ(flat.occupancy().PathOf(starts[1]), 1);
  EXPECT_FALSE(flat.occupancy().HasPath(starts[2]));
  flat.occupancy().Clear();
  EXPECT_EQ(flat.occupancy().Add(1, 2, kLoadUnit, false), SubflowId(0));
  EXPECT_EQ(flat.occupancy().LoadOf(0), 0);
}

}  // namespace
}  // namespace espalier::controller
