#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/prediction/flow_slot.h"
#include "controller/prediction/phase_learner.h"

namespace espalier::controller {

// Puts the edges of a job's flows in the order of their times.
//
// Reports of different hosts wait for different times until they are handled, by hundreds of
// milliseconds on a busy machine. Their edges then arrive in another order than they had. An edge
// waits here until no earlier one is to be expected: until there is one that is later by as much as
// any of the last seconds came after a later one; or, if none comes, for as long as any was on its
// way. If edges come in order, within kNegligible, none waits, however late all of them are.
//
// A busy edge that comes when later ones have been handed on counts as lost, which does a learner
// little harm: counted as now, it would be taken for a member of another phase.
//
// Idle edges wait, too, but only busy ones say how long it takes, as agents report idle edges late
// on purpose and PhaseLearner knows that.
//
// Bounds: kMostWait, or kLongestWay if no edge comes, and kMostWaiting edges. Complexity: O(1) an
// edge, amortized, and the sorting of the edges of kSlice. Memory: the edges that wait.
// Deterministic: times are arguments. Thread safety: none.
class EdgeOrder {
 public:
  struct Edge {
    MemberKey key{};
    FlowSlot slot{};
    bool is_busy = false;
    TimePoint at{};
    std::uint64_t bytes = 0;  // that remain, or that were sent until it became idle
  };
  static constexpr Duration kNegligible = std::chrono::milliseconds(10);
  static constexpr Duration kMostWait = std::chrono::seconds(2);
  static constexpr Duration kLongestWay = std::chrono::seconds(10);
  static constexpr Duration kSlice = std::chrono::milliseconds(4);
  static constexpr Duration kWindow = std::chrono::seconds(10);
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 17U;

  // Adds an edge that has become known now.
  void Add(const Edge& edge, TimePoint now);
  // The edges that have waited for long enough, in order. Valid until the next call of Add or
  // TakeDue.
  std::span<const Edge> TakeDue(TimePoint now);
  // All edges until then should be known now.
  TimePoint CompleteUntil(TimePoint now) const;
  std::size_t waiting() const { return waiting_; }

 private:
  using Slices = std::int64_t;  // since the clock's origin
  static constexpr std::size_t kSlices = 512;
  static_assert(static_cast<std::int64_t>(kSlices) * kSlice > kMostWait + 2 * kSlice);

  // The greatest value of this window and of the one before.
  struct Greatest {
    Duration now{};
    Duration before{};
    // 0 if it is negligible.
    Duration Value() const;
  };

  static Slices SliceOf(TimePoint time) { return time.time_since_epoch() / kSlice; }
  std::vector<Edge>& At(Slices slice) { return ring_[static_cast<std::size_t>(slice) % kSlices]; }
  void NoteBusy(TimePoint at, TimePoint now);
  void HandOn(const Edge& edge);
  void Release();  // the first slice

  std::vector<std::vector<Edge>> ring_;   // by slice; empty until an edge has waited
  std::vector<std::vector<Edge>> spare_;  // room of slices that were released
  std::vector<Edge> due_;
  bool is_taken_ = false;  // due_ was returned
  Slices first_ = 0;       // earlier slices have been released
  std::size_t waiting_ = 0;
  TimePoint newest_{};  // of all edges
  TimePoint handed_{};  // of all busy edges that were handed on
  Greatest behind_;     // how far busy edges lay before the newest
  Greatest way_;        // how late they were handled
  TimePoint window_began_{};
};

}  // namespace espalier::controller
