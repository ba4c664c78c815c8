#include "controller/link_tests/loss_evidence.h"

#include <set>

namespace espalier::controller {

using fabric::DirectedLink;

void LossEvidence::Add(const TrainOutcome& outcome) {
  const std::uint64_t id = first_ + outcomes_.size();
  outcomes_.push_back(outcome);
  outcome.ForEachLink([&](DirectedLink link) { by_link_[link.Index()].push_back(id); });
  if (outcome.IsBad() || outcome.IsSilent()) doubtful_.push_back(id);
}

void LossEvidence::Expire(TimePoint now) {
  while (!outcomes_.empty() &&
         (now - outcomes_.front().at > kMemory || outcomes_.size() > kMostTrains)) {
    outcomes_.front().ForEachLink([&](DirectedLink link) {
      std::deque<std::uint64_t>& ids = by_link_[link.Index()];
      if (!ids.empty() && ids.front() == first_) ids.pop_front();
    });
    outcomes_.pop_front();
    ++first_;
  }
  while (!doubtful_.empty() && doubtful_.front() < first_) doubtful_.pop_front();
}

void LossEvidence::Forget(std::uint32_t route, std::uint16_t port) {
  for (TrainOutcome& outcome : outcomes_) {
    if (outcome.route == route && outcome.port == port) outcome.sent = 0;
  }
}

std::vector<DirectedLink> LossEvidence::Doubtful(TimePoint since) const {
  std::set<std::size_t> links;
  for (const std::uint64_t id : doubtful_) {
    const TrainOutcome& outcome = outcomes_[id - first_];
    if (outcome.at < since || IsForgotten(outcome)) continue;
    outcome.ForEachLink([&](DirectedLink link) { links.insert(link.Index()); });
  }
  std::vector<DirectedLink> found;
  for (const std::size_t index : links) found.push_back(DirectedLink::FromIndex(index));
  return found;
}

}  // namespace espalier::controller
