#include "agent/verbs/queue_activity.h"

#include <algorithm>

namespace espalier::shim {

void QueueActivity::AddEdge(std::uint64_t at) {
  edges_ += edges_ + 1 == 0 ? 5 : 1;  // 0 and 2 have meanings of their own
  between_ = at - last_edge_;
  last_edge_ = at;
}

void QueueActivity::Update(TrafficCount& count, std::uint64_t now, std::uint64_t pause) {
  now = std::max({now, last_edge_, updated_at_});  // counters of processors may differ
  const TrafficCount::Queue queue = count.ReadQueue();
  if (!IsBusy()) {
    if (queue.position == position_ && !queue.has_start) return;
    const bool is_possible = queue.has_start && queue.started_at >= last_edge_;
    AddEdge(is_possible ? std::min(queue.started_at, now) : now);
    count.EndPause();
  }
  if (queue.position != position_) {
    position_ = queue.position;
    moved_at_ = now;
  }
  if (queue.completions != completions_) {
    completions_ = queue.completions;
    completed_after_ = updated_at_;
  }
  updated_at_ = now;
  if (!queue.is_complete) return;
  // Requests without a completion may have followed those that are complete. A completion that did
  // not find the queue empty, because of a post at that moment, has not noted its time.
  const std::uint64_t end =
      queue.has_tail ? std::max(queue.emptied_at, moved_at_) : queue.emptied_at;
  const std::uint64_t idle_since = std::clamp(end, std::max(last_edge_, completed_after_), now);
  if (now - idle_since < pause) return;
  AddEdge(idle_since);
  count.BeginPause(queue.position);
}

void QueueEdges::Update(TrafficCount& count, const TickClock& clock) {
  const std::uint32_t before = activity_.edges();
  activity_.Update(count, ReadTicks(), clock.TicksOf(pause_));
  if (activity_.edges() == before) return;
  last_ = clock.TimeOf(activity_.last_edge());
  between_ = last_ - clock.TimeOf(activity_.last_edge() - activity_.between());
}

}  // namespace espalier::shim
