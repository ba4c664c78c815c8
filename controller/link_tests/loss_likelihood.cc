#include "controller/link_tests/loss_likelihood.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace espalier::controller {

LossLikelihood::LossLikelihood(double q) : q_(q) {
  ESPALIER_CHECK(q > 0 && q < kParts.front(), "the part {} of packets is out of range", q);
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    one_[i] = TermsOf(kParts[i]);
    for (std::size_t j = 0; j < kParts.size(); ++j) {
      both_[i][j] = TermsOf(1 - (1 - kParts[i]) * (1 - kParts[j]));
    }
  }
}

LossLikelihood::Terms LossLikelihood::TermsOf(double p) const {
  Terms terms{};
  for (std::size_t counted = 1; counted < terms.size(); ++counted) {
    const auto c = static_cast<double>(counted);
    const double good = std::pow(1 - p, c);
    const double good_else = std::pow(1 - q_, c);
    terms[counted] = {std::log(good / good_else), std::log((1 - good) / (1 - good_else))};
  }
  return terms;
}

double LossLikelihood::Sum(const TrainCounts& trains, TrainCounts::Crossed crossed,
                           const Terms& terms) {
  double sum = 0;
  for (std::size_t counted = 1; counted < terms.size(); ++counted) {
    for (const std::size_t bad : {0U, 1U}) {
      sum += trains.Of(crossed, counted, bad) * terms[counted][bad];
    }
  }
  return sum;
}

double LossLikelihood::OfOne(const TrainCounts& trains, std::size_t part) const {
  return Sum(trains, TrainCounts::kFirst, one_[part]) + Sum(trains, TrainCounts::kBoth, one_[part]);
}

double LossLikelihood::OfOne(const TrainCounts& trains) const {
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    best = std::max(best, OfOne(trains, part));
  }
  return best;
}

double LossLikelihood::OfTwo(const TrainCounts& trains) const {
  std::array<double, kParts.size()> second{};
  for (std::size_t j = 0; j < kParts.size(); ++j) {
    second[j] = Sum(trains, TrainCounts::kSecond, one_[j]);
  }
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const double first = Sum(trains, TrainCounts::kFirst, one_[i]);
    for (std::size_t j = 0; j < kParts.size(); ++j) {
      best = std::max(best, first + second[j] + Sum(trains, TrainCounts::kBoth, both_[i][j]));
    }
  }
  return best;
}

}  // namespace espalier::controller
