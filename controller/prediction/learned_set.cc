#include "controller/prediction/learned_set.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/random.h"

namespace espalier::controller {
namespace {

constexpr int kUnknownGapInTogethers = 8;
constexpr std::uint64_t kStartsUntilRegular = 3;
constexpr double kRegularConfidence = 0.5;
constexpr double kIrregularConfidence = 0.25;  // below it, a set that was regular is not any more
constexpr std::size_t kFewestConfirmed = 2;    // gaps as predicted: one may be by accident
constexpr double kLearnedShare = 0.9;          // of members that must be in regular sets
constexpr double kForgottenShare = 0.5;  // below it, phases that were learned are not any more
constexpr int kGapsUntilForgotten = 4;   // a set that is absent for longer is in no phase
// And for longer than this, as all reports may be late by a second while the controller is busy.
constexpr Duration kLeastUntilForgotten = std::chrono::seconds(3);

}  // namespace

std::optional<StartForecast> LearnedSet::ForecastByGap() const {
  if (times.empty()) return std::nullopt;
  if (const auto gap = times.gap()) return StartForecast{times.last() + *gap, times.deviation()};
  if (declared_period == Duration{}) return std::nullopt;
  return StartForecast{times.last() + declared_period, declared_period / 8};
}

bool LearnedSet::IsLate(TimePoint now, Duration together) const {
  const Duration gap = times.gap().value_or(2 * kUnknownGapInTogethers * together);
  return now - times.last() > std::max(together, gap / 2);
}

// Word that comes late makes a set of flows of two phases, if these follow each other closely. All
// of them start every time, so that their shapes tell nothing.
std::optional<SetVariant> LearnedSet::LaterPhase(PhaseLearner& activity) const {
  Duration ends{};  // sums: of the earlier ones, and of the later ones
  Duration starts_later{};
  Duration first_start = Duration::max();
  std::int64_t earlier = 0;
  SetVariant later{.of = id, .shape = 0, .members = {}, .after = {}};
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Duration usual = order.UsualTimeOf(i);
    if (order.IsLater(i)) {
      starts_later += usual;
      first_start = std::min(first_start, usual);
      later.members.emplace_back(members[i].key, members[i].bytes);
      continue;
    }
    const PhaseLearner::Length busy = activity.BurstOf(members[i].key, times.lag()).length;
    if (busy.seen == 0) return std::nullopt;
    ends += usual + busy.duration;
    ++earlier;
  }
  const auto count = static_cast<std::int64_t>(later.members.size());
  const bool are_apart = earlier > 0 && count > 0 && ends / earlier <= starts_later / count;
  if (!are_apart) return std::nullopt;
  later.after = first_start;
  return later;
}

bool LearnedSet::IsRegular(const PhaseLearner& activity) const {
  const double least = was_regular ? kIrregularConfidence : kRegularConfidence;
  return starts >= kStartsUntilRegular && times.confidence() >= least &&
         times.confirmed() >= kFewestConfirmed && times.Period() && activity.HasLength(id);
}

bool UpdateRegularity(std::span<LearnedSet> sets, const PhaseLearner& activity, bool is_on,
                      bool were_learned, TimePoint active_until) {
  std::size_t regular = 0;
  std::size_t all = 0;
  for (LearnedSet& set : sets) {
    set.times.Learn();
    const bool is_regular = is_on && set.IsRegular(activity);
    if (is_regular) set.regular_at = active_until;
    set.was_regular =
        is_regular || (set.was_regular && active_until - set.regular_at < kPhasesHeldFor);
    const auto gap = set.times.gap();
    const bool is_gone = gap && active_until - set.times.last() >
                                    std::max(kGapsUntilForgotten * *gap, kLeastUntilForgotten);
    set.is_in_phase = set.was_regular && !is_gone;
    if (set.times.empty() || is_gone) continue;
    all += set.members.size();
    if (set.was_regular) regular += set.members.size();
  }
  const double least = were_learned ? kForgottenShare : kLearnedShare;
  return all > 0 && static_cast<double>(regular) >= least * static_cast<double>(all);
}

std::vector<LearnedPhase> PhasesOf(std::span<const LearnedSet> sets, const PhaseLearner& activity) {
  std::vector<LearnedPhase> phases;
  for (const LearnedSet& set : sets) {
    if (!set.is_in_phase) continue;
    std::uint64_t bytes = 0;
    std::vector<MemberKey> members;
    for (const SetMember& member : set.members) {
      members.push_back(member.key);
      bytes += member.bytes;
    }
    for (std::size_t turn = 0; turn < set.times.lag(); ++turn) {
      PhaseLearner::Turn seen = activity.TurnOf(set.id, set.times.lag(), turn);
      seen.others.insert(seen.others.end(), members.begin(), members.end());
      std::ranges::sort(seen.others);
      seen.others.erase(std::unique(seen.others.begin(), seen.others.end()), seen.others.end());
      phases.push_back({.members = std::move(seen.others),
                        .starts = set.id,
                        .period = set.times.Period(),
                        .duration = seen.length.duration,
                        .deviation = seen.length.deviation,
                        .bytes = bytes});
    }
  }
  return phases;
}

std::uint64_t DigestOfPhases(std::span<const LearnedSet> sets, const PhaseLearner& activity,
                             std::uint64_t seed) {
  std::uint64_t digest = seed;
  for (const LearnedSet& set : sets) {
    if (!set.is_in_phase) continue;
    digest = Mix64(digest ^ set.id.value());
    for (std::size_t turn = 0; turn < set.times.lag(); ++turn) {
      digest = Mix64(digest ^ activity.DigestOfTurn(set.id, set.times.lag(), turn));
    }
  }
  return digest;
}

}  // namespace espalier::controller
