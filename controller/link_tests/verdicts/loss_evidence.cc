#include "controller/link_tests/verdicts/loss_evidence.h"

#include <algorithm>

namespace espalier::controller {

using fabric::DirectedLink;

void LossEvidence::CountDoubt(const TrainOutcome& outcome, bool is_new) {
  if (!outcome.IsBad() && !outcome.IsSilent()) return;
  outcome.ForEachLink([&](DirectedLink link) {
    std::uint32_t& count = doubtful_[link.Index()];
    count = is_new ? count + 1 : count - 1;
  });
}

void LossEvidence::Add(const TrainOutcome& outcome) {
  const std::uint64_t id = first_ + outcomes_.size();
  outcomes_.push_back(outcome);
  outcome.ForEachLink([&](DirectedLink link) { by_link_[link.Index()].push_back(id); });
  if (!IsForgotten(outcome)) CountDoubt(outcome, true);
}

void LossEvidence::Expire(TimePoint now) {
  while (!outcomes_.empty() &&
         (now - outcomes_.front().at > kMemory || outcomes_.size() > kMostTrains)) {
    const TrainOutcome& oldest = outcomes_.front();
    oldest.ForEachLink([&](DirectedLink link) {
      std::deque<std::uint64_t>& ids = by_link_[link.Index()];
      if (!ids.empty() && ids.front() == first_) ids.pop_front();
    });
    if (!IsForgotten(oldest)) CountDoubt(oldest, false);
    outcomes_.pop_front();
    ++first_;
  }
}

void LossEvidence::Forget(DirectedLink uplink, std::span<const std::uint32_t> routes,
                          std::uint16_t port) {
  for (const std::uint64_t id : by_link_[uplink.Index()]) {
    if (id < first_) continue;
    TrainOutcome& outcome = outcomes_[id - first_];
    const bool is_from_port = outcome.port == port && !IsForgotten(outcome) &&
                              std::ranges::find(routes, outcome.route) != routes.end();
    if (!is_from_port) continue;
    CountDoubt(outcome, false);
    outcome.sent = 0;
  }
}

std::vector<DirectedLink> LossEvidence::Doubtful() const {
  std::vector<DirectedLink> found;
  for (std::size_t index = 0; index < doubtful_.size(); ++index) {
    if (doubtful_[index] > 0) found.push_back(DirectedLink::FromIndex(index));
  }
  return found;
}

}  // namespace espalier::controller
