#include "collective/forest/model/rational.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(Rational, IsKeptInLowestTermsAndReadSo) {
  EXPECT_EQ(Rational(6, 4).ToString(), "3/2");
  EXPECT_EQ(Rational(6, 3).ToString(), "2");
  EXPECT_EQ(Rational(0, 7).ToString(), "0");
  EXPECT_EQ(Rational(3, 4).ToDouble(), 0.75);
  EXPECT_EQ(ToString(Int128{kLargest} * 10), "92233720368547758070");
  EXPECT_EQ(ToString(Int128{kLeast}), "-9223372036854775808");
  EXPECT_EQ(GreatestCommonDivisor(-12, 18), 6);
  EXPECT_EQ(GreatestCommonDivisor(0, 5), 5);
}

// Compares by cross multiplication, for which 128 bits suffice here.
TEST(Rational, IsOrderedAsItsValueIs) {
  for (const std::uint64_t seed : SeedsToTry(1, 2'000)) {
    std::mt19937_64 random(seed);
    const auto draw = [&] { return static_cast<std::int64_t>(random() >> (1 + random() % 62)); };
    const std::int64_t a = draw();
    const std::int64_t b = draw() + 1;
    const std::int64_t c = random() % 4 == 0 ? a : draw();
    const std::int64_t d = random() % 4 == 0 ? b : draw() + 1;
    EXPECT_EQ(Rational(a, b) <=> Rational(c, d), Int128{a} * d <=> Int128{c} * b)
        << seed << ": " << a << "/" << b << " " << c << "/" << d;
  }
  // Values whose cross products do not fit.
  const Int128 large = Int128{kLargest} * kLargest;
  EXPECT_LT(Rational(large - 1, large), Rational(large, large + 1));
  EXPECT_EQ(Rational(large, large + 1), Rational(large, large + 1));
}

TEST(Rational, MultipliesAndDividesExactlyOrNotAtAll) {
  EXPECT_EQ(Rational::Product(Rational(2, 3), Rational(9, 4)), Rational(3, 2));
  EXPECT_EQ(Rational::Quotient(Rational(2, 3), Rational(4, 9)), Rational(3, 2));
  const Int128 large = Int128{kLargest} * kLargest;
  EXPECT_EQ(Rational::Product(Rational(large, 7), Rational(7, large)), Rational(1, 1));
  EXPECT_EQ(Rational::Product(Rational(large, 1), Rational(3, 1)), std::nullopt);
  EXPECT_EQ(Rational::Product(Rational(1, large), Rational(1, 3)), std::nullopt);
}

TEST(Rational, SumsExactlyOrNotAtAll) {
  EXPECT_EQ(Rational::Sum(Rational(1, 6), Rational(1, 3)), Rational(1, 2));
  EXPECT_EQ(Rational::Sum(Rational(), Rational(2, 7)), Rational(2, 7));
  const Int128 large = Int128{kLargest} * kLargest;
  EXPECT_EQ(Rational::Sum(Rational(large, 1), Rational(1, large)), std::nullopt);
  EXPECT_EQ(Rational::Sum(Rational(1, large), Rational(1, 3)), std::nullopt);
  EXPECT_EQ(Rational::Sum(Rational(1, large), Rational(1, large)), Rational(2, large));
}

TEST(CheckedNumbers, GiveNothingPastTheirBits) {
  EXPECT_EQ(ToInt64(Int128{kLargest}), kLargest);
  EXPECT_EQ(ToInt64(Int128{kLargest} + 1), std::nullopt);
  EXPECT_EQ(ToInt64(Int128{kLeast}), kLeast);
  EXPECT_EQ(ToInt64(Int128{kLeast} - 1), std::nullopt);
  EXPECT_EQ(CheckedMultiply(kLargest / 2, 2), kLargest - 1);
  EXPECT_EQ(CheckedMultiply(kLargest / 2 + 1, 2), std::nullopt);
  EXPECT_EQ(CheckedAdd(kLargest - 1, 1), kLargest);
  EXPECT_EQ(CheckedAdd(kLargest, 1), std::nullopt);
}

}  // namespace
}  // namespace espalier::forest
