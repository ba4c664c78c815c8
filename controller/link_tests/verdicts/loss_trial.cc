#include "controller/link_tests/verdicts/loss_trial.h"

#include <utility>

namespace espalier::controller {

using fabric::DirectedLink;

void LossTrial::Remove(std::set<AgentId> hosts) {
  window_.removed = std::move(hosts);
  trains_.clear();
}

LossTrial::Trains& LossTrial::Of(DirectedLink link) {
  const auto [known, is_new] = trains_.try_emplace(link.Index());
  Trains& trains = known->second;
  if (!is_new) return trains;
  ForEach(link, [&](const TrainOutcome& outcome) {
    trains.counts.Add(outcome.counted, outcome.IsBad());
    trains.packets.lost += outcome.lost;
    trains.packets.sent += outcome.counted;
    outcome.ForEachLink([&](DirectedLink other) {
      if (other != link) trains.shared[other.Index()].Add(outcome.counted, outcome.IsBad());
    });
  });
  return trains;
}

double LossTrial::OfOne(DirectedLink link) {
  Trains& trains = Of(link);
  if (!trains.of_one) trains.of_one = likelihood_.OfOne(trains.counts);
  return *trains.of_one;
}

double LossTrial::OfAll(std::span<const DirectedLink> links) {
  TrainCounts counts;
  for (const DirectedLink link : links) counts += Of(link).counts;
  return likelihood_.OfOne(counts);
}

double LossTrial::OfTwo(DirectedLink first, DirectedLink second) {
  const Trains& of_first = Of(first);
  const auto shared = of_first.shared.find(second.Index());
  // Their parts are then independent of each other.
  if (shared == of_first.shared.end()) return OfOne(first) + OfOne(second);
  TrainCounts only_first = of_first.counts;
  TrainCounts only_second = Of(second).counts;
  only_first -= shared->second;
  only_second -= shared->second;
  return likelihood_.OfTwo(only_first, only_second, shared->second);
}

bool LossTrial::AreTwins(DirectedLink first, DirectedLink second) {
  const Trains& of_first = Of(first);
  const auto shared = of_first.shared.find(second.Index());
  if (shared == of_first.shared.end()) {
    return of_first.counts.trains() == 0 && Of(second).counts.trains() == 0;
  }
  return shared->second.trains() == of_first.counts.trains() &&
         shared->second.trains() == Of(second).counts.trains();
}

}  // namespace espalier::controller
