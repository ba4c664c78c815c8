#include "controller/link_tests/verdicts/loss_likelihood.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "common/base/random.h"

namespace espalier::controller {
namespace {

enum Crossed : std::uint8_t { kFirst, kSecond, kBoth };

struct Train {
  Crossed crossed;
  std::uint8_t counted;
  bool is_bad;
};

std::vector<Train> Draw(std::uint64_t seed) {
  Random random(seed);
  std::vector<Train> trains;
  for (int i = 0; i < 200; ++i) {
    const auto counted = static_cast<std::uint8_t>(random.Below(TrainCounts::kMostPackets + 1));
    trains.push_back(
        {static_cast<Crossed>(random.Below(3)), counted, counted > 0 && random.Chance(0.2)});
  }
  return trains;
}

TrainCounts CountsOf(const std::vector<Train>& trains, const std::set<Crossed>& crossed) {
  TrainCounts counts;
  for (const Train& train : trains) {
    if (crossed.contains(train.crossed)) counts.Add(train.counted, train.is_bad);
  }
  return counts;
}

double OfTwo(const LossLikelihood& likelihood, const std::vector<Train>& trains) {
  return likelihood.OfTwo(CountsOf(trains, {kFirst}), CountsOf(trains, {kSecond}),
                          CountsOf(trains, {kBoth}));
}

// The probability of what the train showed, if it loses this part of its packets.
double ProbabilityOf(const Train& train, double part) {
  double good = 1;
  for (int i = 0; i < train.counted; ++i) good *= 1 - part;
  return train.is_bad ? 1 - good : good;
}

// The logarithm for losses of p1 and p2 on the two links against q, train by train.
double Brute(const std::vector<Train>& trains, double q, double p1, double p2) {
  double sum = 0;
  for (const Train& train : trains) {
    double part = train.crossed == kSecond ? p2 : p1;
    if (train.crossed == kBoth) part = 1 - (1 - p1) * (1 - p2);
    if (train.counted == 0) continue;
    sum += std::log(ProbabilityOf(train, part)) - std::log(ProbabilityOf(train, q));
  }
  return sum;
}

TEST(LossLikelihood, OfOneLinkIsThatOfItsTrainsOneByOne) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<Train> all = Draw(seed);
    const double q = 1e-3;
    const LossLikelihood likelihood(q);
    std::vector<Train> over;  // the first link
    for (const Train& train : all) {
      if (train.crossed == kSecond) continue;
      over.push_back({kFirst, train.counted, train.is_bad});
    }
    double best = -1e9;
    for (std::size_t i = 0; i < LossLikelihood::kParts.size(); ++i) {
      const double brute = Brute(over, q, LossLikelihood::kParts[i], 0);
      EXPECT_NEAR(likelihood.OfOne(CountsOf(all, {kFirst, kBoth}), i), brute,
                  1e-6 * std::abs(brute) + 1e-9);
      best = std::max(best, brute);
    }
    EXPECT_NEAR(likelihood.OfOne(CountsOf(all, {kFirst, kBoth})), best,
                1e-6 * std::abs(best) + 1e-9);
  }
}

TEST(LossLikelihood, OfTwoLinksIsTheBestPairOfParts) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<Train> trains = Draw(seed);
    const double q = 2.5e-4;
    double best = -1e9;
    for (const double p1 : LossLikelihood::kParts) {
      for (const double p2 : LossLikelihood::kParts) {
        best = std::max(best, Brute(trains, q, p1, p2));
      }
    }
    EXPECT_NEAR(OfTwo(LossLikelihood(q), trains), best, 1e-6 * std::abs(best) + 1e-9);
  }
}

TEST(LossLikelihood, NothingFollowsFromTrainsOfWhichNoPacketCounts) {
  TrainCounts counts;
  for (int i = 0; i < 1'000; ++i) counts.Add(0, false);
  EXPECT_EQ(LossLikelihood(1e-3).OfOne(counts), 0);
  EXPECT_EQ(LossLikelihood(1e-3).OfTwo(counts, counts, counts), 0);
}

// 449 packets of trains at 1 % against 1e-4 were computed for an error of 1e-6.
TEST(LossLikelihood, NeedsAboutAsManyPacketsAsTheSequentialTest) {
  TrainCounts counts;
  Random random(3);
  const LossLikelihood likelihood(1e-4);
  double trains = 0;
  for (int run = 0; run < 200; ++run) {
    counts = {};
    for (int i = 0; i < 10'000 && likelihood.OfOne(counts) < std::log(1e6); ++i, ++trains) {
      counts.Add(8, random.Chance(1 - std::pow(0.99, 8)));
    }
  }
  EXPECT_NEAR(8 * trains / 200, 449, 120);
}

}  // namespace
}  // namespace espalier::controller
