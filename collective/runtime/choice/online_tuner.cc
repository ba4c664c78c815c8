#include "collective/runtime/choice/online_tuner.h"

#include <algorithm>

namespace espalier::runtime {
namespace {

// Each way twice, as one time may be disturbed, besides the first call.
constexpr std::uint32_t kTrials = 5;
// The slower way may be several times slower: it costs some percent to look again so often.
constexpr std::uint32_t kLookAgainEvery = 128;
// What is expected follows times that are longer so slowly: one call may have been disturbed.
constexpr double kGrowth = 1.2;

}  // namespace

OnlineTuner::Candidate OnlineTuner::FasterOf(const Class& tried) {
  return tried.candidates[1].seconds < tried.candidates[0].seconds ? Candidate::kSecond
                                                                   : Candidate::kFirst;
}

// By turns, from the first one, whose first time says nothing; then the faster one.
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
