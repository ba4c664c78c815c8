#pragma once

#include <array>
#include <cstddef>

#include "common/base/time/event_loop.h"

namespace espalier::controller {

// How far a job's predictions were off lately: |predicted - real| as a part of the period, of the
// latest kKept starts or ends of its sets. Complexity: Add O(1), the rest O(kKept log kKept).
// Thread safety: none.
class PredictionErrors {
 public:
  static constexpr std::size_t kKept = 64;

  // Ignored if the period is not positive.
  void Add(Duration error, Duration period);
  // In all. As long as it is 0, nothing has been predicted.
  std::size_t count() const { return count_; }
  Duration last() const { return last_; }  // the latest error
  // The part of the period that this share of the latest errors do not exceed; 0: none is known.
  double AtMost(double share) const;

 private:
  std::array<double, kKept> parts_{};  // by number modulo kKept
  std::size_t count_ = 0;
  Duration last_{};
};

}  // namespace espalier::controller
