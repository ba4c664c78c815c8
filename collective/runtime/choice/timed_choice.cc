#include "collective/runtime/choice/timed_choice.h"

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

TimedChoice::Way TimedChoice::FasterOf(const Class& tried) {
  return tried.candidates[1].seconds < tried.candidates[0].seconds ? Way::kSecond : Way::kFirst;
}

// By turns, from the first one, whose first time says nothing; then the faster one.
TimedChoice::Way TimedChoice::Next(std::size_t call_class) {
  Class& now = classes_[call_class];
  last_class_ = call_class;
  const std::uint32_t number = now.calls++;
  if (number < kTrials) {
    is_timed_ = true;
    last_way_ = number % 2 == 1 ? Way::kSecond : Way::kFirst;
    return last_way_;
  }
  const bool looks_again = number % kLookAgainEvery == 0;
  is_timed_ = looks_again || number % time_every_ == 0;
  last_way_ = FasterOf(now);
  if (looks_again) last_way_ = last_way_ == Way::kFirst ? Way::kSecond : Way::kFirst;
  return last_way_;
}

void TimedChoice::Record(double seconds) {
  Class& now = classes_[last_class_];
  if (now.calls == 1) return;
  Candidate& candidate = now.candidates[static_cast<std::size_t>(last_way_)];
  const bool is_first = candidate.calls++ == 0;
  candidate.seconds = is_first ? seconds : std::min(seconds, candidate.seconds * kGrowth);
}

}  // namespace espalier::runtime
