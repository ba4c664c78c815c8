// Tests the sums of the ledger and what is estimated from them.
#include "controller/ledger/ledger_book.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kNoon{std::chrono::hours(12)};

// A burst of two flows that took so long.
SeenBurst BurstOf(Duration duration, const std::string& job = "a") {
  SeenBurst burst{.job = job, .duration = duration};
  burst.flows.resize(2);
  burst.own = 2;
  return burst;
}

// What the schemes cost in all draws, apart from one more spine.
BurstCosts CostsOf(double present, double optimum) {
  BurstCosts costs;
  costs.crossing = 2;
  costs.known = 1;
  costs.is_proven = true;
  for (const Scheme scheme :
       {Scheme::kPresent, Scheme::kEcmp, Scheme::kEcmp4, Scheme::kEcmp16, Scheme::kOptimum}) {
    auto& seconds = costs.seconds[static_cast<std::size_t>(scheme)].emplace();
    seconds.fill(scheme == Scheme::kOptimum ? optimum : present);
  }
  return costs;
}

const BurstSums& OnlyEntry(const LedgerBook& book) { return book.entries().begin()->second; }

TEST(LedgerBook, EstimatesWhatABurstWouldHaveTaken) {
  LedgerBook book;
  book.Add(kNoon, BurstOf(2100ms), CostsOf(2, 1));
  book.Add(kNoon + 1min, BurstOf(2300ms), CostsOf(2, 1));
  ASSERT_EQ(book.entries().size(), 1U);
  const BurstSums& sums = OnlyEntry(book);
  EXPECT_EQ(sums.bursts, 2U);
  EXPECT_EQ(sums.flows, 4U);
  EXPECT_EQ(sums.known, 2U);
  EXPECT_DOUBLE_EQ(MeanSeconds(sums), 2.2);
  EXPECT_NEAR(StandardError(sums), 0.1, 1e-9);
  const SchemeEstimate present = Estimate(sums, Scheme::kPresent);
  EXPECT_DOUBLE_EQ(present.seconds, 2);
  EXPECT_DOUBLE_EQ(present.burst_seconds, 2.2);
  const SchemeEstimate optimum = Estimate(sums, Scheme::kOptimum);
  EXPECT_DOUBLE_EQ(optimum.seconds, 1);
  EXPECT_DOUBLE_EQ(optimum.burst_seconds, 1.2) << "what links do not explain stays";
  EXPECT_FALSE(Estimate(sums, Scheme::kOneMoreSpine).applies);
}

// A model that says more than was measured is scaled down, so that no gain exceeds the burst.
TEST(LedgerBook, CountsAtMostAsMuchAsWasMeasured) {
  LedgerBook book;
  book.Add(kNoon, BurstOf(1s), CostsOf(4, 1));
  const SchemeEstimate optimum = Estimate(OnlyEntry(book), Scheme::kOptimum);
  EXPECT_DOUBLE_EQ(optimum.seconds, 0.25);
  EXPECT_DOUBLE_EQ(optimum.burst_seconds, 0.25);
}

TEST(LedgerBook, ShowsTheSpreadOfTheDraws) {
  LedgerBook book;
  BurstCosts costs = CostsOf(2, 1);
  auto& ecmp4 = *costs.seconds[static_cast<std::size_t>(Scheme::kEcmp4)];
  for (std::size_t draw = 0; draw < BurstCosts::kDraws; ++draw) {
    ecmp4[draw] = 1 + static_cast<double>(draw) / BurstCosts::kDraws;
  }
  book.Add(kNoon, BurstOf(2s), costs);
  const SchemeEstimate estimate = Estimate(OnlyEntry(book), Scheme::kEcmp4);
  EXPECT_NEAR(estimate.burst_seconds, 1.5, 0.02);
  EXPECT_NEAR(estimate.low, 1.1, 0.01);
  EXPECT_NEAR(estimate.high, 1.9, 0.03);
}

TEST(LedgerBook, KeepsJobsTimesAndPlacingsApart) {
  LedgerBook book;
  book.Add(kNoon, BurstOf(2s), CostsOf(2, 1));
  book.Add(kNoon + 11min, BurstOf(2s), CostsOf(2, 1));
  book.Add(kNoon, BurstOf(2s, "b"), CostsOf(2, 1));
  SeenBurst steered = BurstOf(1s);
  steered.placing = Placing::kSteered;
  book.Add(kNoon, steered, CostsOf(1, 1));
  EXPECT_EQ(book.entries().size(), 4U);
  // A day later, only the new one is left.
  book.Add(kNoon + LedgerBook::kReach + 20min, BurstOf(2s), CostsOf(2, 1));
  EXPECT_EQ(book.entries().size(), 1U);
}

TEST(LedgerBook, NamesWhatHasChanged) {
  LedgerBook book;
  book.Add(kNoon, BurstOf(2s), CostsOf(2, 1));
  book.Add(kNoon, BurstOf(2s), CostsOf(2, 1));
  book.Add(kNoon, BurstOf(2s, "b"), CostsOf(2, 1));
  EXPECT_EQ(book.TakeChanged().size(), 2U);
  EXPECT_TRUE(book.TakeChanged().empty());
  book.Add(kNoon, BurstOf(2s, "b"), CostsOf(2, 1));
  ASSERT_EQ(book.TakeChanged().size(), 1U);
  book.Add(kNoon, BurstOf(2s), CostsOf(2, 1));
  book.Add(kNoon + LedgerBook::kReach + 20min, BurstOf(2s), CostsOf(2, 1));
  EXPECT_EQ(book.TakeChanged().size(), 1U) << "the other one is forgotten";
}

TEST(LedgerBook, TakesOverWhatAnEarlierOneHasKept) {
  LedgerBook earlier;
  for (const auto age : {0min, 20min, 1'430min, 1'450min}) {
    earlier.Add(kNoon + 24h - age, BurstOf(2s), CostsOf(2, 1));
  }
  LedgerBook::Entries entries = earlier.entries();
  const LedgerBook::Key old{kNoon - 24h, "a", Placing::kEcmp};
  entries[old] = OnlyEntry(earlier);
  LedgerBook book;
  book.Restore(entries, kNoon + 24h);
  EXPECT_FALSE(book.entries().contains(old));
  EXPECT_TRUE(book.TakeChanged().empty()) << "the store has them";
  const LedgerBook::Key last{kNoon + 24h, "a", Placing::kEcmp};
  ASSERT_TRUE(book.entries().contains(last));
  book.Add(kNoon + 24h, BurstOf(3s), CostsOf(2, 1));
  EXPECT_EQ(book.entries().at(last).bursts, 2U);
  // The clock was ahead.
  book.Restore(entries, kNoon + 23h);
  EXPECT_FALSE(book.entries().contains(last));
}

TEST(LedgerBook, IsBoundedHoweverManyJobsHostsName) {
  LedgerBook book;
  constexpr std::size_t kSteps = 20;
  for (std::size_t step = 0; step < kSteps; ++step) {
    const WallTime at = kNoon + step * LedgerBook::kStep;
    book.Add(at, BurstOf(2s, "mine"), CostsOf(2, 1));
    for (std::size_t i = 0; i < LedgerBook::kMostOfStep; ++i) {
      book.Add(at, BurstOf(2s, "job" + std::to_string(i)), CostsOf(2, 1));
    }
    book.Add(at, BurstOf(2s, "mine"), CostsOf(2, 1));
    EXPECT_EQ(book.left_out(), step + 1);
    const auto mine = book.entries().find({at, "mine", Placing::kEcmp});
    ASSERT_NE(mine, book.entries().end());
    EXPECT_EQ(mine->second.bursts, 2U);
  }
  EXPECT_EQ(book.entries().size(), LedgerBook::kMostEntries);
}

}  // namespace
}  // namespace espalier::controller
