#include "controller/paths/verification_schedule.h"

#include <algorithm>

namespace espalier::controller {
namespace {

// The time between two verifications of a port that is answered.
Duration RoundOf(const VerificationPace& pace) { return pace.within / 4 * 3; }

// The time after which a port that was asked so often without an answer is asked again.
Duration RetryAfter(const VerificationPace& pace, std::uint32_t unanswered) {
  constexpr std::uint32_t kMostDoublings = 5;
  const Duration wait = pace.within / 32 * (1 << std::min(unanswered - 1, kMostDoublings));
  return std::min(wait, RoundOf(pace));
}

}  // namespace

void VerificationSchedule::SetDue(const UsedPort& port, Record& record, TimePoint due) {
  auto& ports = queues_.at(record.place.source_leaf).ports;
  auto moved = ports.extract({record.due, port});
  record.due = due;
  if (moved.empty()) {
    ports.emplace(due, port);
  } else {
    moved.value().first = due;
    ports.insert(std::move(moved));
  }
}

void VerificationSchedule::Note(const UsedPort& port, const Place& place,
                                const VerificationPace& pace, TimePoint now) {
  const auto [known, is_new] = ports_.try_emplace(port);
  Record& record = known->second;
  record.round = round_;
  if (!is_new) return;
  record.place = place;
  record.verified = now;
  queues_.try_emplace(place.source_leaf, Queue{.ports = {},
                                               .budget = TokenBucket(pace.probes_per_second,
                                                                     pace.probes_per_second, now),
                                               .counted = now});
  SetDue(port, record, now + pace.within / 16);
}

void VerificationSchedule::EndRound() {
  std::erase_if(ports_, [&](const auto& entry) {
    const Record& record = entry.second;
    if (record.round == round_) return false;
    queues_.at(record.place.source_leaf).ports.erase({record.due, entry.first});
    return true;
  });
  std::erase_if(queues_, [](const auto& queue) { return queue.second.ports.empty(); });
  ++round_;
}

void VerificationSchedule::HandleAnswer(const UsedPort& port, const VerificationPace& pace,
                                        TimePoint now) {
  const auto known = ports_.find(port);
  if (known == ports_.end()) return;
  known->second.verified = now;
  known->second.unanswered = 0;
  SetDue(port, known->second, now + RoundOf(pace));
}

void VerificationSchedule::Hurry(const RehashScope& scope, TimePoint now) {
  for (auto& [port, record] : ports_) {
    if (!scope.Contains(record.place.source_leaf, record.place.destination_leaf)) continue;
    record.unanswered = 0;
    if (record.due > now) SetDue(port, record, now);
  }
}

void VerificationSchedule::Ask(const UsedPort& port, Queue& queue, const VerificationPace& pace,
                               TimePoint now) {
  Record& record = ports_.at(port);
  queue.budget.Take(record.place.probes, now);
  SetDue(port, record, now + RetryAfter(pace, ++record.unanswered));
  last_ = now;
}

void VerificationSchedule::TakeFrom(Queue& queue, const VerificationPace& pace, TimePoint now,
                                    std::vector<UsedPort>& taken) {
  queue.budget.SetRate(pace.probes_per_second, pace.probes_per_second, now);
  const double per_second =
      static_cast<double>(queue.ports.size()) / std::max(SecondsOf(RoundOf(pace)), 1e-3);
  queue.turns += per_second * SecondsOf(now - queue.counted);
  queue.turns = std::min(queue.turns, std::max(1.0, per_second));
  queue.counted = now;
  while (!queue.ports.empty() && queue.budget.Level(now) >= 1) {
    const auto [due, port] = *queue.ports.begin();
    if (due > now && queue.turns < 1) return;
    queue.turns = std::max(0.0, queue.turns - 1);
    Ask(port, queue, pace, now);
    taken.push_back(port);
  }
}

std::vector<UsedPort> VerificationSchedule::Take(const VerificationPace& pace, TimePoint now) {
  std::vector<UsedPort> taken;
  Queue* first = nullptr;  // the queue with the port that is due first
  for (auto& [leaf, queue] : queues_) {
    TakeFrom(queue, pace, now, taken);
    if (queue.ports.empty() || queue.budget.Level(now) < 1) continue;
    if (first == nullptr || *queue.ports.begin() < *first->ports.begin()) first = &queue;
  }
  if (taken.empty() && first != nullptr && now - last_ >= pace.interval) {
    const UsedPort port = first->ports.begin()->second;
    Ask(port, *first, pace, now);
    taken.push_back(port);
  }
  return taken;
}

Duration VerificationSchedule::OldestAge(TimePoint now) const {
  Duration oldest{};
  for (const auto& [port, record] : ports_) oldest = std::max(oldest, now - record.verified);
  return oldest;
}

}  // namespace espalier::controller
