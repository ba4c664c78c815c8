#include <algorithm>
#include <utility>

#include "common/base/random.h"
#include "controller/prediction/cycle_learner.h"

// The part of CycleLearner that tells a job's phases, and whether they are known.

namespace espalier::controller {
namespace {

constexpr std::uint64_t kStartsUntilRegular = 3;
constexpr double kRegularConfidence = 0.5;
constexpr double kIrregularConfidence = 0.25;  // below it, a set that was regular is not any more
constexpr std::size_t kFewestConfirmed = 2;    // gaps as predicted: one may be by accident
constexpr double kLearnedShare = 0.9;          // of members that must be in regular sets
constexpr double kForgottenShare = 0.5;  // below it, phases that were learned are not any more
constexpr int kGapsUntilForgotten = 4;   // a set that is absent for longer is in no phase
// And for longer than this, as all reports may be late by a second while the controller is busy.
constexpr Duration kLeastUntilForgotten = std::chrono::seconds(3);
constexpr double kCompleteShare = 0.75;  // of members; a set with less at its starts is a wrong one
constexpr std::uint64_t kMostPatience = 1'024;

}  // namespace

// Sets are learned from the first arrivals. If these all came at once, late, one set has flows of
// several phases. Some of these are as often too late for a start as in time, so that each start
// has other members and no order shows, however long the job runs. Once forgotten, the flows come
// phase by phase and are learned as what they are. Between starts, so that no phase is torn apart.
void CycleLearner::LearnAnew() {
  if (taken_ < patience_ * places_.size() || now_ - last_start_ <= options_.together) return;
  taken_ = 0;
  if (ArePhasesLearned()) {
    patience_ = kPatience;
    return;
  }
  std::vector<SetId> wrong;
  for (const Set& set : sets_) {
    if (!set.is_declared && set.share < kCompleteShare) wrong.push_back(set.id);
  }
  if (wrong.empty()) return;
  patience_ = std::min(2 * patience_, kMostPatience);  // there may be no order in this job
  for (const SetId id : wrong) DropSet(id);
  ++changes_;
}

// Word that comes late makes a set of flows of two phases, if these follow each other closely. All
// of them start every time, so that their shapes tell nothing.
std::optional<CycleLearner::Variant> CycleLearner::Set::LaterPhase(PhaseLearner& activity) const {
  Duration ends{};  // sums: of the earlier ones, and of the later ones
  Duration starts_later{};
  Duration first_start = Duration::max();
  std::int64_t earlier = 0;
  Variant later{.of = id, .shape = 0, .members = {}, .after = {}};
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

// Until it has started a few times by itself, the times of the set that it is from stand for its
// own, so that no flow is without a phase meanwhile.
void CycleLearner::SplitOffLaterPhase(const Variant& later) {
  Set* of = Find(later.of);
  if (of == nullptr) return;
  std::unordered_set<Key> keys;
  for (const auto& [key, bytes] : later.members) keys.insert(key);
  const auto is_later = [&](const Member& member) { return keys.contains(member.key); };
  const bool came_first = std::ranges::any_of(
      of->members, [&](const Member& member) { return member.has_started && is_later(member); });
  if (came_first) return;
  Set set{.id = SetId(next_id_++),
          .starts = of->starts - 1,
          .share = of->share,
          .was_regular = of->was_regular,
          .is_in_phase = of->is_in_phase,
          .regular_at = of->regular_at,
          .times = of->times.BeforeLastLaterBy(*later.after),
          .order = StartOrder(options_.together)};
  activity_.Divide(of->id, set.id, *later.after);
  DropMembers(*of, is_later);
  for (const auto& [key, bytes] : later.members) AddMember(set, key, bytes);
  sets_.push_back(std::move(set));
  ++changes_;
}

bool CycleLearner::Set::IsRegular(const PhaseLearner& activity) const {
  const double least = was_regular ? kIrregularConfidence : kRegularConfidence;
  return starts >= kStartsUntilRegular && times.confidence() >= least &&
         times.confirmed() >= kFewestConfirmed && times.Period() && activity.HasLength(id);
}

bool CycleLearner::ArePhasesLearned() {
  const TimePoint active_until = activity_.IsAnyBusy() ? now_ : last_start_;
  std::size_t regular = 0;
  std::size_t all = 0;
  for (Set& set : sets_) {
    set.times.Learn();
    const bool is_regular = is_on_ && set.IsRegular(activity_);
    if (is_regular) set.regular_at = active_until;
    set.was_regular = is_regular || (set.was_regular && active_until - set.regular_at < kHeldFor);
    const auto gap = set.times.gap();
    const bool is_gone = gap && active_until - set.times.last() >
                                    std::max(kGapsUntilForgotten * *gap, kLeastUntilForgotten);
    set.is_in_phase = set.was_regular && !is_gone;
    if (set.times.empty() || is_gone) continue;
    all += set.members.size();
    if (set.was_regular) regular += set.members.size();
  }
  const double least = are_phases_learned_ ? kForgottenShare : kLearnedShare;
  are_phases_learned_ = all > 0 && static_cast<double>(regular) >= least * static_cast<double>(all);
  return are_phases_learned_;
}

std::uint64_t CycleLearner::DigestOfPhases() {
  if (!ArePhasesLearned()) return 0;
  std::uint64_t digest = Mix64(member_changes_ + 1);
  for (const Set& set : sets_) {
    if (!set.is_in_phase) continue;
    digest = Mix64(digest ^ set.id.value());
    for (std::size_t turn = 0; turn < set.times.lag(); ++turn) {
      digest = Mix64(digest ^ activity_.DigestOfTurn(set.id, set.times.lag(), turn));
    }
  }
  return digest;
}

std::vector<CycleLearner::Phase> CycleLearner::Phases() {
  std::vector<Phase> phases;
  if (!ArePhasesLearned()) return phases;
  for (const Set& set : sets_) {
    if (!set.is_in_phase) continue;
    std::uint64_t bytes = 0;
    std::vector<Key> members;
    for (const Member& member : set.members) {
      members.push_back(member.key);
      bytes += member.bytes;
    }
    for (std::size_t turn = 0; turn < set.times.lag(); ++turn) {
      PhaseLearner::Turn seen = activity_.TurnOf(set.id, set.times.lag(), turn);
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

}  // namespace espalier::controller
