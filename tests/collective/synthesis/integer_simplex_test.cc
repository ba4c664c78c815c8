#include "collective/synthesis/integer_simplex.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "controller/offline/evaluation/solver.h"
#include "tests/seeds.h"

namespace espalier::synthesis {
namespace {

using forest::Rational;

TEST(IntegerSimplex, GivesAnExactOptimumWithPrices) {
  // max a + b with 2 a + b <= 3, a + 3 b <= 4: a = 1, b = 1; then c is better than its price.
  IntegerSimplex simplex({3, 4});
  simplex.AddColumn({2, 1});
  simplex.AddColumn({1, 3});
  ASSERT_TRUE(simplex.Solve());
  EXPECT_EQ(Rational(simplex.Objective(), simplex.denominator()), Rational(2, 1));
  EXPECT_EQ(Rational(simplex.Value(0), simplex.denominator()), Rational(1, 1));
  EXPECT_EQ(Rational(simplex.Price(0), simplex.denominator()), Rational(2, 5));
  EXPECT_EQ(Rational(simplex.Price(1), simplex.denominator()), Rational(1, 5));
  simplex.AddColumn({1, 1});
  ASSERT_TRUE(simplex.Solve());
  EXPECT_EQ(Rational(simplex.Objective(), simplex.denominator()), Rational(3, 1));
}

TEST(IntegerSimplex, FindsWhatASolverFindsOnRandomPrograms) {
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](std::int64_t least, std::int64_t most) {
      return std::uniform_int_distribution<std::int64_t>(least, most)(random);
    };
    const auto rows = static_cast<std::size_t>(draw(1, 6));
    std::vector<std::int64_t> capacity;
    for (std::size_t i = 0; i < rows; ++i) capacity.push_back(draw(1, 20));
    IntegerSimplex simplex(capacity);
    std::vector<std::string> sums(rows);
    std::string objective;
    const std::int64_t columns = draw(1, 12);
    for (std::int64_t j = 0; j < columns; ++j) {
      std::vector<std::int64_t> column;
      for (std::size_t i = 0; i < rows; ++i) {
        column.push_back(i == 0 ? draw(1, 9) : draw(0, 9));
        sums[i] += fmt::format(" + {} q{}", column.back(), j);
      }
      simplex.AddColumn(column);
      objective += fmt::format(" + q{}", j);
    }
    std::string text = "Maximize\n obj:" + objective + "\nSubject To\n";
    for (std::size_t i = 0; i < rows; ++i) text += sums[i] + fmt::format(" <= {}\n", capacity[i]);
    const auto solution = offline::SolveWithCbc(text + "End\n");
    constexpr std::string_view kStart = "Optimal - objective value ";
    ASSERT_TRUE(solution && solution->starts_with(kStart));
    ASSERT_TRUE(simplex.Solve());
    const Rational best(simplex.Objective(), simplex.denominator());
    EXPECT_NEAR(best.ToDouble(), std::abs(std::stod(solution->substr(kStart.size()))), 1e-6);
  }
}

TEST(IntegerSimplex, ReportsEntriesThatExceed127Bits) {
  constexpr std::int64_t kLarge = std::numeric_limits<std::int64_t>::max();
  IntegerSimplex simplex({kLarge, kLarge - 2, kLarge - 6});
  simplex.AddColumn({kLarge - 1, 3, 1});
  simplex.AddColumn({5, kLarge - 3, 7});
  simplex.AddColumn({11, 13, kLarge - 4});
  EXPECT_FALSE(simplex.Solve());
}

}  // namespace
}  // namespace espalier::synthesis
