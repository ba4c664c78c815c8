#include "controller/routing/model/cut_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

constexpr std::int64_t kRate = 100'000'000'000;

TEST(CutRoom, FillsLinksUpToOneLevel) {
  const std::vector<std::int64_t> rates(3, kRate);
  const std::vector<std::int64_t> base = {0, kLoadUnit / 2, kLoadUnit};
  const CutRoom room(rates, base, kLoadUnit);
  EXPECT_EQ(room.PortionsAt(kLoadUnit - 1), 0);
  EXPECT_EQ(room.PortionsAt(kLoadUnit), 1);
  EXPECT_EQ(room.PortionsAt(2 * kLoadUnit), 4);
  EXPECT_EQ(room.LevelFor(1), kLoadUnit);
  EXPECT_EQ(room.LevelFor(2), kLoadUnit * 3 / 2);
  EXPECT_EQ(room.LevelFor(3), 2 * kLoadUnit);
  EXPECT_EQ(room.LevelFor(4), 2 * kLoadUnit);
  EXPECT_EQ(room.LevelForOne(kLoadUnit), kLoadUnit);
  EXPECT_EQ(CutRoom(std::span(rates).subspan(1), std::span(base).subspan(1), kLoadUnit / 2)
                .LevelForOne(kLoadUnit),
            kLoadUnit * 3 / 2);
}

TEST(CutRoom, FillsASlowLinkSooner) {
  const std::vector<std::int64_t> rates = {kRate, kRate / 2};
  const CutRoom room(rates, {}, kLoadUnit);
  EXPECT_EQ(room.PortionsAt(kLoadUnit), 1);
  EXPECT_EQ(room.LevelFor(2), 2 * kLoadUnit);
  EXPECT_EQ(room.PortionsAt(2 * kLoadUnit), 3);
}

// The least load of the fullest link that takes a portion, by trying all distributions.
Load LeastByHand(const FabricView& view, std::int64_t portions, std::int64_t portion,
                 std::span<const std::int64_t> rates, std::span<const std::int64_t> base) {
  const auto load_with = [&](std::int64_t here) {
    return here == 0 ? Load{} : MakeLoad(view, base.front() + here * portion, rates.front());
  };
  if (rates.size() == 1) return load_with(portions);
  Load best{std::numeric_limits<std::int32_t>::max(), 1};
  for (std::int64_t here = 0; here <= portions; ++here) {
    const Load rest =
        LeastByHand(view, portions - here, portion, rates.subspan(1), base.subspan(1));
    best = std::min(best, std::max(rest, load_with(here)));
  }
  return best;
}

TEST(CutRoom, GivesTheLoadOfTheBestDistribution) {
  const auto fabric = Fabric::LeafSpine(4, 2);
  for (const std::uint64_t seed : SeedsToTry(1, 500)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    std::vector<std::int64_t> rates(1 + random() % 4);
    std::vector<std::int64_t> base(rates.size());
    const bool are_equal = random() % 2 == 0;
    for (std::int64_t& rate : rates) rate = are_equal ? kRate : kRate / 4 * (1 + random() % 4);
    for (std::int64_t& load : base) load = random() % 2 == 0 ? 0 : random() % (2 * kLoadUnit);
    const std::int64_t portion = kLoadUnit / (1 + random() % 16);
    const std::int64_t portions = 1 + random() % 9;
    EXPECT_EQ(CutRoom(rates, base, portion).LoadFor(fabric->view, portions),
              LeastByHand(fabric->view, portions, portion, rates, base));
  }
}

}  // namespace
}  // namespace espalier::controller
