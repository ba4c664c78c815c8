// The sums of the ledger as the store keeps them.
#include "controller/ledger/ledger_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace espalier::controller {
namespace {

// Sums with numbers that are not round, and draws that differ in one scheme.
BurstSums SomeSums() {
  BurstSums sums{.bursts = 3,
                 .skipped = 1,
                 .flows = 48,
                 .crossing = 36,
                 .known = 12,
                 .proven = 2,
                 .gpus = 64,
                 .measured_seconds = 1.0 / 3,
                 .measured_squares = 0.1};
  for (const Scheme scheme : {Scheme::kPresent, Scheme::kEcmp, Scheme::kOptimum}) {
    BurstSums::OfScheme& of = sums.schemes[static_cast<std::size_t>(scheme)];
    of.bursts = 3;
    of.seconds.fill(1.0 / 7);
  }
  BurstCosts::Seconds& drawn = sums.schemes[static_cast<std::size_t>(Scheme::kEcmp)].seconds;
  for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i] = 1.0 / (3.0 + static_cast<double>(i));
  return sums;
}

TEST(LedgerText, KeepsEveryNumberExactly) {
  const BurstSums sums = SomeSums();
  const Result<BurstSums> read = ParseSums(FormatSums(sums));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(FormatSums(*read), FormatSums(sums));
  EXPECT_EQ(read->gpus, 64U);
  EXPECT_EQ(read->measured_seconds, sums.measured_seconds);
  for (std::size_t i = 0; i < kSchemes; ++i) {
    EXPECT_EQ(read->schemes[i].bursts, sums.schemes[i].bursts);
    EXPECT_EQ(read->schemes[i].seconds, sums.schemes[i].seconds);
  }
  EXPECT_FALSE(Estimate(*read, Scheme::kOneMoreSpine).applies) << "it is still unknown, not 0";
}

TEST(LedgerText, SaysOnceWhatAllDrawsHaveInCommon) {
  const std::string text = FormatSums(SomeSums());
  EXPECT_NE(text.find(" OPTIMUM 3 1 0.14285714285714285"), std::string::npos) << text;
  EXPECT_NE(text.find(" ECMP 3 40 0.3333333333333333 0.25"), std::string::npos) << text;
  EXPECT_LT(text.size(), 5'000U);
}

TEST(LedgerText, RefusesWhatItHasNotWritten) {
  const std::string good = "3 1 48 36 12 2 64 0.3 0.1";
  EXPECT_TRUE(ParseSums(good).has_value());
  const std::vector<std::string> bad = {"",
                                        "3 1 48",
                                        "-" + good,
                                        "3 1 48 36 12 2 64 nan 0.1",
                                        "3 1 48 36 12 2 64 0.3 inf",
                                        "3 1 48 36 12 2 64 -0.3 0.1",
                                        good + " PLAN 3 1 0.1",
                                        good + " ECMP",
                                        good + " ECMP 3 2 0.1 0.1",
                                        good + " ECMP 4 1 0.1",
                                        good + " ECMP 3 40 0.1",
                                        good + " ECMP 3 99999999999 0.1",
                                        good + " ECMP 3 1 x"};
  for (const std::string& text : bad) {
    const Result<BurstSums> read = ParseSums(text);
    EXPECT_FALSE(read.has_value()) << text;
  }
  EXPECT_NE(ParseSums(good + " PLAN 3 1 0.1").error().message.find("\"PLAN\" is wrong"),
            std::string::npos);
}

}  // namespace
}  // namespace espalier::controller
