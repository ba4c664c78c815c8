#pragma once

#include <cstdint>

#include "agent/verbs/ticks.h"
#include "agent/verbs/traffic_count.h"

namespace espalier::shim {

// When a queue pair is busy: from the first request on an idle queue until the last completion
// before a pause. The queue is idle if all requests that have completions of their own are
// complete. Pauses shorter than `pause` do not count.
//
// Only the thread that calls Update decides. It tells the count where an idle queue stands, and the
// post that finds the queue there notes its time. So posts read a clock at most once in a pause,
// and completions only if the queue may be empty. Requests at the end that have no completions of
// their own count as complete when the queue's recent rate has drained them, as estimated, or after
// kMostDrain pauses. If a post slips in while the thread does so, the
// time of the edge is that of the next Update. The state follows from the counts at each Update, so
// it cannot hang. Thread safety: one thread, while others post and complete.
class QueueActivity {
 public:
  // All times are in ticks. The queue has had no request.
  explicit QueueActivity(std::uint64_t now) : last_edge_(now) {}

  void Update(TrafficCount& count, std::uint64_t now, std::uint64_t pause);

  // Changes between busy and idle. Odd: busy; even: idle; 2: idle from the start.
  std::uint32_t edges() const { return edges_; }
  std::uint64_t last_edge() const { return last_edge_; }
  // From the edge before it to the last edge.
  std::uint64_t between() const { return between_; }

 private:
  static constexpr std::uint64_t kMostDrain = 256;  // pauses

  // Updates the rate at which requests complete, and when all that was posted has been sent at it.
  void EstimateDrain(const TrafficCount::Queue& queue, std::uint64_t now, std::uint64_t pause);
  bool IsBusy() const { return edges_ % 2 == 1; }
  void AddEdge(std::uint64_t at);

  std::uint32_t edges_ = 2;
  std::uint64_t last_edge_;
  std::uint64_t between_ = 0;
  std::uint64_t position_ = 0;  // of the count at the last Update
  std::uint64_t moved_at_ = 0;  // the Update that found it changed
  std::uint64_t completions_ = 0;
  std::uint64_t completed_after_ = 0;  // the Update before that which found a new completion
  std::uint64_t updated_at_ = 0;
  // The estimate of when the queue drains. The rate is the highest of late, in bytes per tick: if
  // the program polls late, requests seem to take long. 0: not known.
  double rate_ = 0;
  TrafficCount::Reading measured_;  // the counts from which the rate is measured next
  std::uint64_t measured_at_ = 0;
  std::uint64_t posted_bytes_ = 0;  // at the last Update
  std::uint64_t drains_at_ = 0;     // 0: not known
};

// The last edge of a queue pair by the steady clock.
class QueueEdges {
 public:
  // The queue pair has had no request. Pauses of this length count.
  explicit QueueEdges(TickClock::Clock::duration pause)
      : pause_(pause), activity_(ReadTicks()), last_(TickClock::Clock::now()) {}

  void Update(TrafficCount& count, const TickClock& clock);
  std::uint32_t count() const { return activity_.edges(); }
  std::uint64_t last_ns() const { return NanosecondsOf(last_.time_since_epoch()); }
  std::uint64_t between_ns() const { return NanosecondsOf(between_); }

 private:
  static std::uint64_t NanosecondsOf(std::chrono::nanoseconds span) {
    return static_cast<std::uint64_t>(span.count());
  }

  TickClock::Clock::duration pause_;
  QueueActivity activity_;
  // As of when the edge was found, as the clock converts recent times only.
  TickClock::Clock::time_point last_;
  TickClock::Clock::duration between_{};
};

}  // namespace espalier::shim
