#include "collective/runtime/choice/online_tuner.h"

#include <algorithm>

namespace espalier::runtime {
namespace {

// The first call, then each candidate twice, as one measurement may be disturbed.
constexpr std::uint32_t kTrials = 5;
// The slower candidate may take several times as long, so each retry costs some percent.
constexpr std::uint32_t kLookAgainEvery = 128;
// An estimate rises by at most this factor per call, because a single call may be disturbed.
constexpr double kGrowth = 1.2;

}  // namespace

OnlineTuner::Candidate OnlineTuner::FasterOf(const Class& tried) {
  return tried.candidates[1].seconds < tried.candidates[0].seconds ? Candidate::kSecond
                                                                   : Candidate::kFirst;
}

// Problem: of two protocols, the faster one depends on the size and changes within minutes. Idea: a
// two-armed comparison that runs in the calls themselves. The candidates alternate in the first
// kTrials calls of a class; then the faster one runs, and the other is retried every
// kLookAgainEvery calls. Each candidate has one estimate: the last time that was measured, of which
// rises are limited to kGrowth per call, so one disturbed call does not switch, but a few slow ones
// do. Cost: O(1) per call, plus the slower candidate in one call of kLookAgainEvery.
OnlineTuner::Candidate OnlineTuner::Next(std::size_t call_class) {
  Class& now = classes_[call_class];
  last_class_ = call_class;
  const std::uint32_t number = now.calls++;
  if (number < kTrials) {
    is_timed_ = true;
    last_candidate_ = number % 2 == 1 ? Candidate::kSecond : Candidate::kFirst;
    return last_candidate_;
  }
  const bool looks_again = number % kLookAgainEvery == 0;
  is_timed_ = looks_again || number % time_every_ == 0;
  last_candidate_ = FasterOf(now);
  if (looks_again)
    last_candidate_ = last_candidate_ == Candidate::kFirst ? Candidate::kSecond : Candidate::kFirst;
  return last_candidate_;
}

void OnlineTuner::Record(double seconds) {
  Class& now = classes_[last_class_];
  if (now.calls == 1) return;
  CandidateTimes& candidate = now.candidates[static_cast<std::size_t>(last_candidate_)];
  const bool is_first = candidate.calls++ == 0;
  candidate.seconds = is_first ? seconds : std::min(seconds, candidate.seconds * kGrowth);
}

}  // namespace espalier::runtime
