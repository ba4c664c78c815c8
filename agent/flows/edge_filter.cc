#include "agent/flows/edge_filter.h"

#include <algorithm>

namespace espalier::agent {
namespace {

constexpr Duration kWindow = std::chrono::seconds(1);
constexpr std::int64_t kPermille = 1'000;
// A source tells an edge at most this late.
constexpr Duration kSourceDelay = std::chrono::milliseconds(100);

bool IsBusy(const SourceEdges& source) { return source.count % 2 == 1; }

}  // namespace

EdgeFilter::EdgeFilter(const EdgeFilterOptions& options, TimePoint now, const SourceEdges& source)
    : source_count_(source.count), now_(now), window_start_(now) {
  constexpr std::uint32_t kNeverBusy = 2;
  const TimePoint last = std::min(source.last, now);
  busy_ = IsBusy(source) || (source.count != kNeverBusy && now - last < options.idle_after);
  // The start of a phase that may be about to end is not known.
  changed_at_ = busy_ && !IsBusy(source) ? now : last;
  source_last_ = last;
  activity_ = {.edges = busy_ ? 1U : 2U, .last_edge = changed_at_};
}

void EdgeFilter::Update(const EdgeFilterOptions& options, TimePoint now,
                        const SourceEdges& source) {
  const TimePoint seen = now_;
  now_ = std::max(now_, now);
  if (source.count != source_count_) {
    const TimePoint earliest = std::max(changed_at_, seen - kSourceDelay);
    source_last_ = std::clamp(source.last, earliest, now_);
  }
  const TimePoint last = std::max(source_last_, changed_at_);
  if (source.count != source_count_) {
    // The flow may have been idle, or busy, since the last call without being so now.
    source_count_ = source.count;
    const Duration between = std::clamp(source.between, Duration::zero(), last - changed_at_);
    const bool had_pause = IsBusy(source) && busy_ && between >= options.idle_after;
    const bool had_burst = !IsBusy(source) && !busy_;
    if (had_pause || had_burst) Change(options, had_burst, last - between);
  }
  if (IsBusy(source)) {
    Change(options, true, last);
  } else if (now_ - last >= options.idle_after) {
    Change(options, false, last);
  }
  if (now_ - window_start_ >= kWindow) EndWindow(options);
}

void EdgeFilter::Change(const EdgeFilterOptions& options, bool busy, TimePoint at) {
  if (busy == busy_) return;
  if (!busy) {
    window_busy_ += std::max(Duration::zero(), at - std::max(changed_at_, window_start_));
  }
  busy_ = busy;
  changed_at_ = at;
  ++window_changes_;
  if (activity_.duty_permille != 0) return;
  if (window_changes_ <= options.max_edges_per_second) return AddEdge(at);
  activity_.duty_permille = DutyPermille();
  if (busy) AddEdge(at);
}

// 0 means that there was none, so the count skips it.
void EdgeFilter::AddEdge(TimePoint at) {
  activity_.edges += activity_.edges + 1 == 0 ? 3 : 1;
  activity_.last_edge = at;
}

std::uint16_t EdgeFilter::DutyPermille() const {
  const Duration open =
      busy_ ? std::max(Duration::zero(), now_ - std::max(changed_at_, window_start_))
            : Duration::zero();
  const Duration window = std::max<Duration>(Duration(1), now_ - window_start_);
  const double part = SecondsOf(window_busy_ + open) / SecondsOf(window);
  return static_cast<std::uint16_t>(
      std::clamp<std::int64_t>(static_cast<std::int64_t>(part * kPermille), 1, kPermille));
}

void EdgeFilter::EndWindow(const EdgeFilterOptions& options) {
  if (activity_.duty_permille != 0) {
    activity_.duty_permille = DutyPermille();
    if (window_changes_ <= options.max_edges_per_second / 2) {
      activity_.duty_permille = 0;
      if (busy_) AddEdge(changed_at_);  // so that the last edge is the one that is told
      AddEdge(changed_at_);
    }
  }
  window_start_ = now_;
  window_busy_ = {};
  window_changes_ = 0;
}

}  // namespace espalier::agent
