#include "controller/prediction/prediction_errors.h"

#include <algorithm>

namespace espalier::controller {

void PredictionErrors::Add(Duration error, Duration period) {
  if (period <= Duration{}) return;
  last_ = error < Duration{} ? -error : error;
  parts_[count_++ % kKept] = SecondsOf(last_) / SecondsOf(period);
}

double PredictionErrors::AtMost(double share) const {
  const std::size_t kept = std::min(count_, kKept);
  if (kept == 0) return 0;
  std::array<double, kKept> sorted = parts_;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(kept));
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(kept));
  return sorted[std::min(rank, kept - 1)];
}

}  // namespace espalier::controller
