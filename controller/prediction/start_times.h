#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/base/time/event_loop.h"

namespace espalier::controller {

// The latest starts of one set of flows, and the gaps learned from them. Gaps may repeat with a
// lag, if the set starts several times per iteration; the predicted gap is the median of the latest
// ones at that lag. Complexity: Add O(1); the rest O(starts kept x lags) after a new start, else
// O(1). Thread safety: one thread.
class StartTimes {
 public:
  // `shape` identifies which members took part; it can be set later for the latest start.
  void Add(TimePoint time);
  void SetShapeOfLast(std::uint64_t shape) { starts_.back().shape = shape; }
  // Moves the starts of this shape to the result. The latest one stays if its shape is not set yet.
  StartTimes TakeShape(std::uint64_t shape);
  // All starts but the latest, each so much later.
  StartTimes BeforeLastLaterBy(Duration later) const;
  // Whether the shapes up to the latest one repeat with a lag, and there are several.
  bool HaveShapesInTurn() const;
  // Whether this shape is frequent among the latest starts.
  bool IsFrequent(std::uint64_t shape) const;

  bool empty() const { return starts_.empty(); }
  std::size_t size() const { return starts_.size(); }
  TimePoint last() const { return starts_.back().time; }

  // Learns from the starts added since the last call. The results below refer to it.
  void Learn();
  std::size_t lag() const { return lag_; }
  std::optional<Duration> gap() const { return gap_; }  // the predicted next gap
  Duration deviation() const { return deviation_; }
  double confidence() const { return confidence_; }  // share of latest gaps that were as predicted
  std::size_t confirmed() const { return confirmed_; }  // their number
  // The time after which the starts repeat.
  std::optional<Duration> Period() const;

 private:
  struct Start {
    TimePoint time;
    std::uint64_t shape = 0;
  };

  std::deque<Start> starts_;
  // The latest gap is learned only when a forecast is needed, because flows wait while their start
  // is handled.
  bool has_new_gap_ = false;
  std::size_t lag_ = 1;
  std::optional<Duration> gap_;
  Duration deviation_{};
  double confidence_ = 0;
  std::size_t confirmed_ = 0;
};

// The middle value; of an even count the lower of the two. `durations` must not be empty.
Duration MedianOf(std::vector<Duration> durations);
Duration Distance(Duration a, Duration b);

}  // namespace espalier::controller
