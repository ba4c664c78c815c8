#include "collective/runtime/shared/piece_exchange.h"

#include <gtest/gtest.h>

#include <atomic>

#include "collective/runtime/shared/pieces.h"
#include "tests/collective/runtime/shared/two_contexts.h"

namespace espalier::runtime {
namespace {

class PieceExchangeTest : public TwoContexts {
 protected:
  void Begin(int rank) { context(rank).Begin({}, {}, InAWhile()); }
};

// A place holds the number of the piece that was written there last.
TEST_F(PieceExchangeTest, PassesEveryPieceThroughFewPlaces) {
  constexpr std::size_t kPlaces = 3;
  std::atomic<std::size_t> places[2][kPlaces] = {};
  RunBoth([&](int rank) {
    Begin(rank);
    PieceExchange exchange(context(rank));
    for (const std::size_t pieces : {1U, 2U, 50U, 0U, 7U}) {
      std::size_t consumed = 0;
      const auto done = exchange.Run(
          pieces, kPlaces, {}, [&](std::size_t i) { places[rank][i % kPlaces] = 100 + i; },
          [&](std::size_t i) {
            EXPECT_EQ(i, consumed++);
            EXPECT_EQ(places[1 - rank][i % kPlaces], 100 + i);
          });
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_EQ(consumed, pieces);
      // Stands for the entry to the next call.
      ASSERT_TRUE(context(rank).Barrier());
    }
  });
}

TEST_F(PieceExchangeTest, AdvancesAllCountersWithOneWriterOrOneReader) {
  constexpr std::size_t kPieces = 9;
  std::atomic<std::size_t> places[2][2] = {};
  RunBoth([&](int rank) {
    Begin(rank);
    PieceExchange exchange(context(rank));
    for (const Roles roles :
         {Roles{.writer = 1}, Roles{.reader = 0}, Roles{}, Roles{.writer = 0}}) {
      std::size_t published = 0;
      std::size_t consumed = 0;
      const auto done = exchange.Run(
          kPieces, 2, roles, [&](std::size_t i) { places[rank][i % 2] = i, ++published; },
          [&](std::size_t i) {
            ++consumed;
            const int other = 1 - rank;
            if (roles.writer != rank) {
              EXPECT_EQ(places[other][i % 2], i);
            }
          });
      ASSERT_TRUE(done) << done.error().message;
      const bool writes = roles.writer == kAllRanks || roles.writer == rank;
      const bool reads = roles.reader == kAllRanks || roles.reader == rank;
      EXPECT_EQ(published, writes ? kPieces : 0U);
      EXPECT_EQ(consumed, reads ? kPieces : 0U);
      ASSERT_TRUE(context(rank).Barrier());
    }
  });
}

TEST(Pieces, AreEmptyBeyondTheEndOfTheVector) {
  const Pieces pieces = {.count = 10, .length = 4, .element = 2};
  EXPECT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces.Offset(2), 16U);
  EXPECT_EQ(pieces.Elements(1), 4U);
  EXPECT_EQ(pieces.Bytes(2), 4U);
  EXPECT_EQ(pieces.Bytes(3), 0U);
  EXPECT_EQ(pieces.Bytes(100), 0U);
}

TEST(Pieces, AreOfTheLongestPart) {
  const std::vector<std::size_t> bounds = {0, 3, 10, 10};
  Operands operands = {.elements = 10, .type = reduce::DataType::kF32, .bounds = bounds};
  const Pieces unequal = LongestPart(operands, 3, 8);
  EXPECT_EQ(unequal.count, 7U);
  EXPECT_EQ(unequal.length, 2U);
  EXPECT_EQ(unequal.element, 4U);
  operands.bounds = {};
  EXPECT_EQ(LongestPart(operands, 3, 8).count, 10U);
}

}  // namespace
}  // namespace espalier::runtime
