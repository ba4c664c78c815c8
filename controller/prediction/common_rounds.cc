#include "controller/prediction/common_rounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "controller/prediction/start_times.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kWindows = 4;
constexpr double kLeastMean = 0.35;    // mean vectors below this length point nowhere
constexpr double kNarrowMean = 0.7;    // above it, places are about the same
constexpr double kSameCosine = 0.92;   // of 23 degrees
constexpr double kOtherCosine = 0.70;  // of 45 degrees

using Starts = std::span<const TimePoint>;

// The mean of places in a cycle, as a vector in the unit circle.
struct MeanPlace {
  double x = 0;
  double y = 0;

  double Length() const { return std::hypot(x, y); }
  double CosineTo(const MeanPlace& other) const {
    const double both = Length() * other.Length();
    return both > 0 ? (x * other.x + y * other.y) / both : 0;
  }
};

// The starts of `a` that lie in a cycle of `b`.
Starts Within(Starts a, Starts b) {
  if (b.size() < 2) return {};
  const auto first = std::ranges::lower_bound(a, b.front());
  const auto last = std::lower_bound(first, a.end(), b.back());
  return {first, last};
}

MeanPlace MeanPlaceOf(Starts a, Starts b) {
  MeanPlace mean;
  for (const TimePoint start : a) {
    const auto next = std::ranges::upper_bound(b, start);
    const TimePoint before = *(next - 1);
    const double place = SecondsOf(start - before) / SecondsOf(*next - before);
    mean.x += std::cos(2 * std::numbers::pi * place);
    mean.y += std::sin(2 * std::numbers::pi * place);
  }
  const auto count = static_cast<double>(a.size());
  return {mean.x / count, mean.y / count};
}

// Where the starts of one flow lie in the cycles of another one.
enum class Places {
  kStay,
  kTurn,    // they wander, slowly enough to be followed
  kSpread,  // they wander, or there are several
  kUnknown,
};

Places PlacesOf(Starts a, Starts b) {
  const Starts inside = Within(a, b);
  if (inside.size() < kStartsCompared) return Places::kUnknown;
  const std::size_t quarter = inside.size() / kWindows;
  std::array<MeanPlace, kWindows> means;
  for (std::size_t i = 0; i < kWindows; ++i) {
    means[i] = MeanPlaceOf(inside.subspan(i * quarter, quarter), b);
  }
  const auto is_spread = [](const MeanPlace& mean) { return mean.Length() < kLeastMean; };
  bool wander = true;
  for (std::size_t i = 1; i < kWindows; ++i) {
    wander = wander && (is_spread(means[i - 1]) || is_spread(means[i]) ||
                        means[i - 1].CosineTo(means[i]) < kOtherCosine);
  }
  if (wander) return std::ranges::any_of(means, is_spread) ? Places::kSpread : Places::kTurn;
  const MeanPlace& last = means[kWindows - 1];
  const MeanPlace& before = means[kWindows - 2];
  const bool stay = last.Length() > kNarrowMean && before.Length() > kNarrowMean &&
                    last.CosineTo(before) > kSameCosine;
  return stay ? Places::kStay : Places::kUnknown;
}

// Whether `a` starts the same number of times in each cycle of `b`, by and large.
bool IsMultiple(Starts a, Starts b) {
  const Starts bounds = Within(b, a);
  if (bounds.size() < 2) return false;
  const auto cycles = static_cast<std::int64_t>(bounds.size() - 1);
  const auto inside = static_cast<std::int64_t>(Within(a, bounds).size());
  const std::int64_t times = (inside + cycles / 2) / cycles;
  return times >= 1 && std::abs(inside - times * cycles) <= 1 + cycles / 128;
}

}  // namespace

Rounds CompareRounds(Starts a, Starts b) {
  const Places of_a = PlacesOf(a, b);
  if (of_a == Places::kStay) return Rounds::kCommon;
  const Places of_b = PlacesOf(b, a);
  if (of_b == Places::kStay) return Rounds::kCommon;
  if (of_a == Places::kUnknown || of_b == Places::kUnknown) return Rounds::kUnknown;
  const bool are_several = (of_a == Places::kSpread || of_b == Places::kSpread) &&
                           (IsMultiple(a, b) || IsMultiple(b, a));
  return are_several ? Rounds::kUnknown : Rounds::kApart;
}

std::optional<Duration> RegularGap(Starts starts) {
  constexpr std::size_t kMostApart = 4;
  if (starts.size() < kStartsCompared) return std::nullopt;
  const Starts latest = starts.last(kStartsCompared);
  for (std::size_t apart = 1; apart <= kMostApart; ++apart) {
    std::vector<Duration> gaps;
    for (std::size_t i = apart; i < latest.size(); ++i) {
      gaps.push_back(latest[i] - latest[i - apart]);
    }
    const Duration usual = MedianOf(gaps);
    for (Duration& gap : gaps) gap = Distance(gap, usual);
    // Sums of irregular gaps deviate less in proportion.
    const auto times = static_cast<std::int64_t>(5 * apart);
    if (times * MedianOf(std::move(gaps)) > usual) continue;
    return (latest.back() - latest.front()) / static_cast<std::int64_t>(latest.size() - 1);
  }
  return std::nullopt;
}

}  // namespace espalier::controller
