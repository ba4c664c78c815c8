#pragma once

#include <algorithm>
#include <limits>

#include "common/base/event_loop.h"

namespace espalier {

// How much of something may still be done: `per_second` of it on the long run, and at most
// `capacity` of it at once. It may be overdrawn by one piece of any size, which is then owed.
// A rate of 0 is no limit. Times may not run backwards. Thread safety: none.
class TokenBucket {
 public:
  // Full at `now`.
  TokenBucket(double per_second, double capacity, TimePoint now)
      : per_second_(per_second), capacity_(capacity), level_(capacity), filled_(now) {}

  // What is there; negative: owed.
  double Level(TimePoint now) {
    if (per_second_ <= 0) return std::numeric_limits<double>::infinity();
    const double seconds = SecondsOf(now - filled_);
    filled_ = now;
    level_ = std::min(capacity_, level_ + seconds * per_second_);
    return level_;
  }
  // Takes it whether it is there or not; true: it was.
  bool Take(double amount, TimePoint now) {
    const bool had = Level(now) >= amount;
    if (per_second_ > 0) level_ -= amount;
    return had;
  }
  // The same level, at most the new capacity.
  void SetRate(double per_second, double capacity, TimePoint now) {
    Level(now);
    per_second_ = per_second;
    capacity_ = capacity;
    level_ = std::min(level_, capacity);
  }

 private:
  double per_second_;
  double capacity_;
  double level_;
  TimePoint filled_;
};

}  // namespace espalier
