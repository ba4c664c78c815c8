#include "controller/prediction/start_times.h"

#include <algorithm>
#include <span>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::size_t kTimesKept = 32;
constexpr std::size_t kMaxLag = 8;           // starts of a set per iteration
constexpr int kJitterPart = 16;              // of a gap: what counts as jitter
constexpr std::size_t kGapsForMedian = 5;    // at lag 1; 3 at higher lags
constexpr std::size_t kGapsForTrust = 8;     // latest gaps that count for the confidence
constexpr std::size_t kStartsForShape = 12;  // latest starts among which a shape is frequent
constexpr std::ptrdiff_t kFrequent = 3;      // or more of these
constexpr std::size_t kFewestInTurn = 6;     // starts whose shapes repeat, at least

// The differences between each gap and the one `lag` earlier, oldest first.
std::vector<Duration> DeviationsAt(std::span<const Duration> gaps, std::size_t lag) {
  std::vector<Duration> deviations;
  for (std::size_t i = lag; i < gaps.size(); ++i) {
    deviations.push_back(Distance(gaps[i], gaps[i - lag]));
  }
  return deviations;
}

Duration GapAt(std::span<const Duration> gaps, std::size_t lag) {
  std::vector<Duration> alike;
  const std::size_t most = lag == 1 ? kGapsForMedian : 3;
  for (std::size_t back = lag; back <= gaps.size() && alike.size() < most; back += lag) {
    alike.push_back(gaps[gaps.size() - back]);
  }
  return MedianOf(std::move(alike));
}

// The least value that three quarters of these, and not fewer, do not exceed.
Duration UpperQuartileOf(std::vector<Duration> durations) {
  const auto at = durations.begin() + static_cast<std::ptrdiff_t>((3 * durations.size() - 1) / 4);
  std::nth_element(durations.begin(), at, durations.end());
  return *at;
}

// After how many gaps the gaps repeat. A longer lag must halve the deviation, and must have been
// seen to repeat: three quarters of the deviations must be that small, as half of them often are by
// chance where starts are told late. If gaps at a lag are equal but for a little jitter, none
// longer is needed.
std::size_t LagOf(std::span<const Duration> gaps) {
  std::size_t best = 1;
  if (gaps.size() < 3) return best;
  Duration least = MedianOf(DeviationsAt(gaps, 1));
  const Duration jitter = MedianOf({gaps.begin(), gaps.end()}) / kJitterPart;
  for (std::size_t lag = 2; lag <= kMaxLag && 2 * lag < gaps.size() && least > jitter; ++lag) {
    const std::vector<Duration> deviations = DeviationsAt(gaps, lag);
    if (UpperQuartileOf(deviations) >= least / 2) continue;
    least = MedianOf(deviations);
    best = lag;
  }
  return best;
}

}  // namespace

Duration MedianOf(std::vector<Duration> durations) {
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>((durations.size() - 1) / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return *middle;
}

Duration Distance(Duration a, Duration b) { return a > b ? a - b : b - a; }

void StartTimes::Add(TimePoint time) {
  starts_.push_back({.time = time});
  if (starts_.size() > kTimesKept) starts_.pop_front();
  has_new_gap_ = true;
}

StartTimes StartTimes::TakeShape(std::uint64_t shape) {
  StartTimes taken;
  for (const Start& start : starts_) {
    if (start.shape == shape) taken.Add(start.time);
  }
  std::erase_if(starts_, [&](const Start& start) { return start.shape == shape; });
  has_new_gap_ = true;
  return taken;
}

StartTimes StartTimes::BeforeLastLaterBy(Duration later) const {
  StartTimes moved;
  for (std::size_t i = 0; i + 1 < starts_.size(); ++i) moved.Add(starts_[i].time + later);
  moved.Learn();
  return moved;
}

bool StartTimes::HaveShapesInTurn() const {
  for (std::size_t lag = 2; lag <= kMaxLag; ++lag) {
    const std::size_t needed = std::max(kFewestInTurn, 2 * lag);
    if (needed > starts_.size()) return false;
    const auto begin = starts_.end() - static_cast<std::ptrdiff_t>(needed);
    const auto is_same = [](const Start& a, const Start& b) { return a.shape == b.shape; };
    const bool repeats =
        std::equal(begin + static_cast<std::ptrdiff_t>(lag), starts_.end(), begin, is_same);
    const bool differ = std::any_of(begin, starts_.end(),
                                    [&](const Start& start) { return !is_same(start, *begin); });
    if (repeats && differ) return true;
  }
  return false;
}

bool StartTimes::IsFrequent(std::uint64_t shape) const {
  const std::size_t first = starts_.size() - std::min(starts_.size(), kStartsForShape);
  const auto begin = starts_.begin() + static_cast<std::ptrdiff_t>(first);
  return std::count_if(begin, starts_.end(),
                       [&](const Start& start) { return start.shape == shape; }) >= kFrequent;
}

void StartTimes::Learn() {
  if (!std::exchange(has_new_gap_, false)) return;
  std::vector<Duration> gaps;
  for (std::size_t i = 1; i < starts_.size(); ++i) {
    gaps.push_back(starts_[i].time - starts_[i - 1].time);
  }
  if (gaps.empty()) return;
  lag_ = LagOf(gaps);
  gap_ = GapAt(gaps, lag_);
  const std::vector<Duration> deviations = DeviationsAt(gaps, lag_);
  deviation_ = deviations.empty() ? *gap_ / 4 : MedianOf(deviations);
  std::size_t seen = 0;
  confirmed_ = 0;
  for (std::size_t i = gaps.size(); i-- > lag_ && seen < kGapsForTrust; ++seen) {
    if (Distance(gaps[i], gaps[i - lag_]) <= gaps[i] / 4) ++confirmed_;
  }
  confidence_ = seen > 0 ? static_cast<double>(confirmed_) / static_cast<double>(seen) : 0;
}

std::optional<Duration> StartTimes::Period() const {
  if (!gap_ || starts_.size() <= lag_) return std::nullopt;
  if (lag_ == 1) return gap_;
  return starts_.back().time - starts_[starts_.size() - 1 - lag_].time;
}

}  // namespace espalier::controller
