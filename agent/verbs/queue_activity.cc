#include "agent/verbs/queue_activity.h"

#include <algorithm>

namespace espalier::shim {

void QueueActivity::AddEdge(std::uint64_t at) {
  edges_ += edges_ + 1 == 0 ? 5 : 1;  // 0 and 2 have meanings of their own
  between_ = at - last_edge_;
  last_edge_ = at;
}

void QueueActivity::EstimateDrain(const TrafficCount::Queue& queue, std::uint64_t now,
                                  std::uint64_t pause) {
  constexpr double kDecay = 15.0 / 16;
  const bool has_completed = queue.completions != completions_;
  const std::uint64_t posted = TrafficCount::Difference(queue.bytes.posted_bytes, posted_bytes_);
  posted_bytes_ = queue.bytes.posted_bytes;
  const std::uint64_t left =
      TrafficCount::Difference(queue.bytes.posted_bytes, queue.bytes.completed_bytes);
  if (has_completed && now - measured_at_ >= pause) {
    const std::uint64_t done =
        TrafficCount::Difference(queue.bytes.completed_bytes, measured_.completed_bytes);
    rate_ = std::max(static_cast<double>(done) / static_cast<double>(now - measured_at_),
                     rate_ * kDecay);
    measured_ = queue.bytes;
    measured_at_ = now;
  }
  if (rate_ <= 0) return;
  const auto ticks_of = [&](std::uint64_t bytes) {
    const double ticks = static_cast<double>(bytes) / rate_;
    const std::uint64_t most = pause > ~std::uint64_t{0} / kMostDrain ? pause : kMostDrain * pause;
    return ticks < static_cast<double>(most) ? static_cast<std::uint64_t>(ticks) : most;
  };
  if (posted > 0) drains_at_ = std::max(drains_at_, updated_at_) + ticks_of(posted);
  if (has_completed) {
    const std::uint64_t from = queue.is_complete ? std::min(queue.emptied_at, now) : now;
    drains_at_ = std::min(drains_at_, from + ticks_of(left));
  }
  drains_at_ = std::min(drains_at_, now + ticks_of(left));
}

void QueueActivity::Update(TrafficCount& count, std::uint64_t now, std::uint64_t pause) {
  now = std::max({now, last_edge_, updated_at_});  // counters of processors may differ
  const TrafficCount::Queue queue = count.ReadQueue();
  if (!IsBusy()) {
    if (queue.position == position_ && !queue.has_start) return;
    const bool is_possible = queue.has_start && queue.started_at >= last_edge_;
    AddEdge(is_possible ? std::min(queue.started_at, now) : now);
    count.EndPause();
    measured_at_ = last_edge_;
    updated_at_ = std::max(updated_at_, last_edge_);
  }
  EstimateDrain(queue, now, pause);
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
      queue.has_tail ? std::max({queue.emptied_at, moved_at_, drains_at_}) : queue.emptied_at;
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
