#include "controller/link_tests/verdicts/loss_likelihood.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace espalier::controller {

TrainCounts& TrainCounts::operator+=(const TrainCounts& other) {
  for (std::size_t counted = 0; counted < counts_.size(); ++counted) {
    for (const std::size_t bad : {0U, 1U}) counts_[counted][bad] += other.counts_[counted][bad];
  }
  return *this;
}

TrainCounts& TrainCounts::operator-=(const TrainCounts& other) {
  for (std::size_t counted = 0; counted < counts_.size(); ++counted) {
    for (const std::size_t bad : {0U, 1U}) counts_[counted][bad] -= other.counts_[counted][bad];
  }
  return *this;
}

std::uint32_t TrainCounts::trains() const {
  std::uint32_t sum = 0;
  for (const auto& [good, bad] : counts_) sum += good + bad;
  return sum;
}

std::uint32_t TrainCounts::bad() const {
  std::uint32_t sum = 0;
  for (const auto& [good, bad] : counts_) sum += bad;
  return sum;
}

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
  const double pass = std::log1p(-p);
  const double pass_else = std::log1p(-q_);
  for (std::size_t counted = 1; counted < terms.size(); ++counted) {
    const auto c = static_cast<double>(counted);
    terms[counted] = {c * (pass - pass_else),
                      std::log(std::expm1(c * pass) / std::expm1(c * pass_else))};
  }
  return terms;
}

double LossLikelihood::Sum(const TrainCounts& trains, const Terms& terms) {
  double sum = 0;
  for (std::size_t counted = 1; counted < terms.size(); ++counted) {
    for (const std::size_t bad : {0U, 1U}) sum += trains.Of(counted, bad) * terms[counted][bad];
  }
  return sum;
}

double LossLikelihood::OfOne(const TrainCounts& trains, std::size_t part) const {
  return Sum(trains, one_[part]);
}

double LossLikelihood::OfOne(const TrainCounts& trains) const {
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    best = std::max(best, OfOne(trains, part));
  }
  return best;
}

double LossLikelihood::OfTwo(const TrainCounts& first, const TrainCounts& second,
                             const TrainCounts& both) const {
  std::array<double, kParts.size()> of_second{};
  for (std::size_t j = 0; j < kParts.size(); ++j) of_second[j] = Sum(second, one_[j]);
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const double of_first = Sum(first, one_[i]);
    for (std::size_t j = 0; j < kParts.size(); ++j) {
      best = std::max(best, of_first + of_second[j] + Sum(both, both_[i][j]));
    }
  }
  return best;
}

}  // namespace espalier::controller
