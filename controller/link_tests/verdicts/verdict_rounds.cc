#include "controller/link_tests/verdicts/verdict_rounds.h"

#include <algorithm>
#include <iterator>

namespace espalier::controller {

void VerdictRounds::JudgeStep(TimePoint now) {
  Doubt& doubt = doubts_.front();
  const KnownFaults known = callbacks_.known();
  if (!doubt.has_begun) {
    doubt.has_begun = true;
    callbacks_.on_begin(doubt.link, known);
    std::ranges::copy(verdict_.StepsFor(doubt.link, known, now), std::back_inserter(doubt.steps));
  } else {
    const auto finding = verdict_.JudgeStep(doubt.link, doubt.steps.front(), known, now);
    doubt.steps.pop_front();
    if (finding) doubt.steps.clear();
    if (finding) callbacks_.on_finding(*finding);
  }
  if (doubt.steps.empty()) doubts_.pop_front();
}

void VerdictRounds::Judge(TimePoint now) {
  const std::uint64_t limit = evidence_.visits() + kVisitsOfTurn;
  if (doubts_.empty() && now >= next_round_) {
    next_round_ = now + kPeriod;
    for (const fabric::DirectedLink link : evidence_.Doubtful()) doubts_.push_back({.link = link});
  }
  while (!doubts_.empty() && evidence_.visits() < limit) {
    if (callbacks_.is_due(doubts_.front().link)) {
      JudgeStep(now);
    } else {
      doubts_.pop_front();
    }
  }
}

}  // namespace espalier::controller
