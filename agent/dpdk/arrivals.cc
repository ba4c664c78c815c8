#include "agent/dpdk/arrivals.h"

#include <algorithm>

namespace espalier::dpdk {
void Arrivals::Handle(const FlowEvent& event, TimePoint now) {
  if (arrivals_.contains(event.key)) return;  // reported before its line was visible to cores
  const auto slot = table_.AddArrival(event.key, event.flow_kind, event.psn);
  if (!slot) return;
  const State state = known_.contains(event.key) ? State::kKnown : State::kLookedAt;
  arrivals_.emplace(
      event.key,
      Arrival{.slot = *slot, .state = state, .bytes = 0, .since = now, .progress_at = now});
  changed_ = true;
  if (state == State::kKnown) return;
  matcher_.EndBetween(event.key);
  if (!looking_since_) looking_since_ = now;
}

void Arrivals::HandleAnswer(const FlowEvent& event, TimePoint now) {
  const FlowKey answered = event.key.Reversed(0);
  std::vector<StreamMatcher::Candidate> candidates;
  bool fits = false;
  for (const auto& [data, arrival] : arrivals_) {
    if (arrival.state != State::kLookedAt || !AreSameHosts(data, answered)) continue;
    if (table_.arrival(arrival.slot).kind != event.flow_kind) continue;
    // Cores may not know yet how far these are.
    const TimePoint since = std::max(arrival.since, looking_since_.value_or(now));
    if (now - since < StreamMatcher::kSettle) return;
    const std::atomic<std::uint64_t>& next = table_.arrival(arrival.slot).next;
    const std::uint64_t next_psn = next.load(std::memory_order_relaxed);
    // By now, data may have come that this packet has requested.
    fits |= AckMatch::Fits(next_psn, event.psn, StreamMatcher::kMayFit) ||
            (event.flow_kind == FlowKind::kResponses && AckMatch::MayFollow(next_psn, event.psn));
    candidates.push_back({data, &next});
  }
  if (fits) matcher_.Begin(event, candidates, now);
}

void Arrivals::SetKnown(const FlowKey& data) {
  known_.insert(data);
  matcher_.Exclude(data);
  const auto arrival = arrivals_.find(data);
  if (arrival != arrivals_.end()) arrival->second.state = State::kKnown;
}

void Arrivals::Forget(const FlowKey& data) {
  known_.erase(data);
  const auto arrival = arrivals_.find(data);
  if (arrival != arrivals_.end()) Remove(arrival);
}

bool Arrivals::HasEnough(const FlowKey& data) const {
  const auto arrival = arrivals_.find(data);
  return arrival != arrivals_.end() && BytesOf(arrival->second) >= kEnough;
}

Arrivals::Map::iterator Arrivals::Remove(Map::iterator arrival) {
  matcher_.EndBetween(arrival->first);  // a match may still read its line
  table_.RemoveArrival(arrival->second.slot);
  changed_ = true;
  return arrivals_.erase(arrival);
}

bool Arrivals::Update(const FlowKey& data, Arrival& arrival, TimePoint now) {
  const std::uint64_t bytes = BytesOf(arrival);
  if (std::exchange(arrival.bytes, bytes) != bytes) arrival.progress_at = now;
  switch (arrival.state) {
    case State::kKnown:
      return true;
    case State::kRests:
      if (now - arrival.since < kRest) return true;
      arrival.state = State::kLookedAt;
      arrival.since = arrival.progress_at = now;
      matcher_.EndBetween(data);
      return true;
    case State::kLookedAt:
      break;
  }
  if (bytes < kEnough && now - arrival.progress_at >= kIdle) return false;
  if (now - arrival.since < kLook) return true;
  if (bytes < kEnough || arrival.progress_at == arrival.since) return false;
  arrival.state = State::kRests;
  arrival.since = now;
  matcher_.Exclude(data);
  return true;
}

void Arrivals::Tick(TimePoint now) {
  bool is_looking = false;
  for (auto at = arrivals_.begin(); at != arrivals_.end();) {
    if (!Update(at->first, at->second, now)) {
      at = Remove(at);
      continue;
    }
    is_looking |= at->second.state == State::kLookedAt;
    ++at;
  }
  if (!is_looking) {
    looking_since_.reset();
  } else if (!looking_since_) {
    looking_since_ = now;
  }
}

}  // namespace espalier::dpdk
