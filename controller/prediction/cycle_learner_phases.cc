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

bool CycleLearner::ArePhasesLearned() {
  if (!is_on_) return false;
  const TimePoint active_until = activity_.IsAnyBusy() ? now_ : last_start_;
  std::size_t regular = 0;
  std::size_t all = 0;
  for (Set& set : sets_) {
    set.times.Learn();
    const double least = set.was_regular ? kIrregularConfidence : kRegularConfidence;
    set.was_regular = set.starts >= kStartsUntilRegular && set.times.confidence() >= least &&
                      set.times.confirmed() >= kFewestConfirmed && set.times.Period() &&
                      activity_.HasLength(set.id);
    const auto gap = set.times.gap();
    const bool is_gone = gap && active_until - set.times.last() > kGapsUntilForgotten * *gap;
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
