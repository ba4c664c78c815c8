#pragma once

#include <algorithm>
#include <limits>

#include "common/base/time/event_loop.h"

namespace espalier {

// Token bucket: allows `per_second` units in the long run and at most `capacity` at once. One
// piece of any size may overdraw it; the debt is then paid off first. A rate of 0 means no limit.
// Times must not run backwards. Thread safety: none.
class TokenBucket {
 public:
  // Full at `now`.
  TokenBucket(double per_second, double capacity, TimePoint now)
      : per_second_(per_second), capacity_(capacity), level_(capacity), filled_(now) {}

  // The tokens in the bucket; negative while it is overdrawn.
  double Level(TimePoint now) {
    if (per_second_ <= 0) return std::numeric_limits<double>::infinity();
    const double seconds = SecondsOf(now - filled_);
    filled_ = now;
    level_ = std::min(capacity_, level_ + seconds * per_second_);
    return level_;
  }
  // Takes the amount in any case; returns whether there were enough tokens.
  bool Take(double amount, TimePoint now) {
    const bool had = Level(now) >= amount;
    if (per_second_ > 0) level_ -= amount;
    return had;
  }
  // Keeps the level, up to the new capacity.
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
