#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/base/time/event_loop.h"

namespace espalier::controller {

// A flow of a job has bytes to send for some time, with pauses shorter than kBurstGap.
struct Burst {
  TimePoint began{};
  TimePoint ended{};  // TimePoint::max(): it lasts
};

// The part of another burst, of its length, in which this one lasts as well; 0 if it has no length.
double PartWithin(const Burst& burst, const Burst& other);

constexpr Duration kBurstGap = std::chrono::milliseconds(50);

// The latest bursts of a flow, and which bursts of other flows begin together with them.
class BurstLog {
 public:
  explicit BurstLog(std::size_t kept) : kept_(kept) {}

  // The flow has bytes to send. True: with this a new burst begins. O(1).
  bool Begin(TimePoint at);
  // The flow has nothing to send.
  void End(TimePoint at);

  // How many bursts are kept; the present or last one is At(0), the one before is At(1).
  std::size_t size() const { return bursts_.size(); }
  const Burst& At(std::size_t age) const { return bursts_[bursts_.size() - 1 - age]; }
  // Keeps so many, the latest ones.
  BurstLog Kept(std::size_t kept) const;

  // How a burst of another flow lies beside the nearest burst of this one.
  struct Place {
    std::size_t age = 0;     // of this flow's burst
    Duration offset{};       // from its beginning to that of the other flow's burst
    Duration tolerance{};    // offsets that differ by less are the same
    bool is_beside = false;  // begins within half of the shorter of both, or within the tolerance
    bool is_within = false;  // of this flow's burst, as the steps of a ring beside a slower one
  };
  // None: fewer than two bursts are kept. O(log size()).
  std::optional<Place> PlaceOf(const Burst& burst) const;
  // Whether a burst begins after the one time and before the other. O(log size()).
  bool BeginsBetween(TimePoint after, TimePoint before) const;

 private:
  std::size_t kept_;
  std::vector<Burst> bursts_;  // the oldest first
};

}  // namespace espalier::controller
