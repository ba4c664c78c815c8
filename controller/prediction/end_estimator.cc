#include "controller/prediction/end_estimator.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace espalier::controller {
namespace {

constexpr double kNewWeight = 0.5;      // of the newest rate in the moving average
constexpr double kSpreadWeight = 0.25;  // of the newest deviation in the moving average
constexpr double kIntervals = 2;        // width of the forecast's interval, in mean deviations
constexpr double kSlowest = 0.05;       // lowest rate for the latest end, relative to the expected
constexpr double kDrains = 0.6;         // above it, the flow sends what is posted and no more
constexpr int kShortestRest = 20;       // of the usual duration, when that is over
constexpr double kYearSeconds = 365.0 * 86'400;

TimePoint After(TimePoint from, double seconds) {
  const double capped = std::min(seconds, kYearSeconds);
  return from + Duration(static_cast<std::int64_t>(capped * 1e9));
}

}  // namespace

// Problem: the expected ends of all flows change with every report, but only the earliest few are
// ever needed. Keeping them sorted would cost O(log flows) per report.
// Idea: a binary heap with lazy keys. If a flow's expected end moves away, its key stays as it is,
// too early. Only when a search up to a time finds the flow, its key is corrected and it
// sinks. If the end moves closer, the key is lowered at once.
// Invariant: key <= expected for each flow in the heap, and keys are in heap order, so no flow with
// an end by `until` lies below one with a later key. At(heap_[p].flow).place == p.
// Rates: `correction` and `measured_bps` are exponential moving averages of what reports show. The
// correction is kept when the planned rate changes.
// Cost: as in the header; a search visits at most two flows for each that it returns or corrects.

double EndEstimator::UsualRate(const Entry& entry) {
  if (entry.usual_bytes == 0) return 0;
  return 8 * static_cast<double>(entry.usual_bytes) / SecondsOf(entry.usual_duration);
}

double EndEstimator::RateOf(const Entry& entry) {
  if (!entry.has_rate && entry.usual_bytes > 0) return UsualRate(entry);
  return entry.planned_bps > 0 ? entry.planned_bps * entry.correction : entry.measured_bps;
}

void EndEstimator::LearnRate(Entry& entry, double seen_bps) {
  const double expected = RateOf(entry);
  if (!std::exchange(entry.has_rate, true) && entry.usual_bytes > 0) {
    if (entry.planned_bps > 0) entry.correction = expected / entry.planned_bps;
    entry.measured_bps = expected;
  }
  if (expected > 0) {
    const double deviation = std::min(1.0, std::abs(seen_bps - expected) / expected);
    entry.spread += kSpreadWeight * (deviation - entry.spread);
  }
  if (entry.planned_bps > 0) {
    entry.correction += kNewWeight * (seen_bps / entry.planned_bps - entry.correction);
  } else {
    const double weight = entry.measured_bps > 0 ? kNewWeight : 1;
    entry.measured_bps += weight * (seen_bps - entry.measured_bps);
  }
}

void EndEstimator::LearnOccupancy(Entry& entry, double seconds, double seen_bps,
                                  std::uint64_t outstanding_bytes) {
  if (entry.has_report && seconds > 0) {
    const double bits =
        8 * (static_cast<double>(entry.outstanding_bytes) - static_cast<double>(outstanding_bytes));
    const double rate = seen_bps > 0 ? seen_bps : RateOf(entry);
    const double fall = rate > 0 ? std::clamp(bits / (rate * seconds), -1.0, 1.0) : 0;
    entry.drain += kNewWeight * (fall - entry.drain);
  }
  entry.outstanding_bytes = outstanding_bytes;
}

std::optional<EndEstimator::Rest> EndEstimator::RestOf(const Entry& entry) {
  const double rate = RateOf(entry);
  if (entry.has_report && entry.remaining_bytes > 0) {
    if (rate <= 0) return std::nullopt;
    return Rest{static_cast<double>(entry.remaining_bytes) * 8 / rate};
  }
  const double queued =
      rate > 0 ? static_cast<double>(entry.outstanding_bytes) * 8 / rate : 0;  // seconds
  const bool is_unknown = entry.usual_duration == Duration{};
  if (queued > 0 && (is_unknown || entry.drain > kDrains)) return Rest{queued};
  if (is_unknown) return std::nullopt;
  const double left = static_cast<double>(entry.usual_bytes) - entry.sent_bytes;
  if (entry.has_rate && left > 0) return Rest{std::max(queued, left * 8 / rate)};
  const double usual = SecondsOf(entry.begun + entry.usual_duration - entry.reported);
  const double shortest = SecondsOf(entry.usual_duration) / kShortestRest;
  const double deviation = std::max(SecondsOf(entry.usual_deviation), shortest);
  return Rest{std::max({queued, usual, usual > 0 ? 0 : shortest}), deviation};
}

void EndEstimator::SetUsualDuration(FlowSlot flow, Duration duration, Duration deviation,
                                    std::uint64_t bytes) {
  if (flow.Index() >= flows_.size() || !At(flow).is_live || duration <= Duration{}) return;
  Entry& entry = At(flow);
  entry.usual_duration = duration;
  entry.usual_deviation = std::max(Duration{}, deviation);
  entry.usual_bytes = bytes;
  Update(flow);
}

void EndEstimator::Begin(FlowSlot flow, TimePoint now, double planned_bps) {
  if (flow.Index() >= flows_.size()) flows_.resize(flow.Index() + 1);
  RemoveFromHeap(flow);
  At(flow) = {};
  At(flow).is_live = true;
  At(flow).reported = now;
  At(flow).begun = now;
  At(flow).planned_bps = std::max(0.0, planned_bps);
}

void EndEstimator::SetPlannedRate(FlowSlot flow, double planned_bps) {
  if (flow.Index() >= flows_.size() || !At(flow).is_live) return;
  if (At(flow).planned_bps == std::max(0.0, planned_bps)) return;
  At(flow).planned_bps = std::max(0.0, planned_bps);
  Update(flow);
}

void EndEstimator::TakeReport(FlowSlot flow, TimePoint now, std::uint64_t remaining_bytes,
                              std::uint64_t achieved_bps, std::uint64_t outstanding_bytes) {
  if (flow.Index() >= flows_.size() || !At(flow).is_live) return;
  Entry& entry = At(flow);
  if (now < entry.reported) return;
  const double seconds = SecondsOf(now - entry.reported);
  const bool has_moved = entry.has_report && remaining_bytes < entry.remaining_bytes && seconds > 0;
  const double seen_bps =
      has_moved ? static_cast<double>(entry.remaining_bytes - remaining_bytes) * 8 / seconds
                : static_cast<double>(achieved_bps);
  if (seen_bps > 0) LearnRate(entry, seen_bps);
  LearnOccupancy(entry, seconds, seen_bps, outstanding_bytes);
  entry.sent_bytes += seen_bps / 8 * seconds;
  entry.has_report = true;
  entry.reported = now;
  entry.remaining_bytes = remaining_bytes;
  Update(flow);
}

void EndEstimator::End(FlowSlot flow) {
  if (flow.Index() >= flows_.size()) return;
  RemoveFromHeap(flow);
  At(flow) = {};
}

std::optional<EndEstimator::Forecast> EndEstimator::Of(FlowSlot flow) const {
  if (flow.Index() >= flows_.size() || At(flow).place < 0) return std::nullopt;
  const Entry& entry = At(flow);
  const double rate = RateOf(entry);
  const Rest rest = RestOf(entry).value_or(Rest{});
  const double seconds = rest.seconds;
  if (rest.deviation_seconds >= 0) {
    const double spread = kIntervals * rest.deviation_seconds;
    return Forecast{.expected = entry.expected,
                    .earliest = After(entry.reported, std::max(0.0, seconds - spread)),
                    .latest = After(entry.reported, seconds + spread),
                    .rate_bps = rate};
  }
  const double spread = kIntervals * entry.spread;
  return Forecast{.expected = entry.expected,
                  .earliest = After(entry.reported, seconds / (1 + spread)),
                  .latest = After(entry.reported, seconds / std::max(kSlowest, 1 - spread)),
                  .rate_bps = rate};
}

// Where all flows are planned for their phases, thousands of them begin and end in each second, and
// nobody asks which end next. Keeping their order would cost several lines of memory each time.
void EndEstimator::NoteChange() {
  constexpr std::size_t kFewest = 1'024;
  if (is_heap_ && ++changes_ > kFewest + 4 * heap_.size()) is_heap_ = false;
}

void EndEstimator::MakeHeap() {
  for (Spot& spot : heap_) spot.key = At(spot.flow).expected;
  for (std::size_t place = heap_.size() / 2; place-- > 0;) SiftDown(place);
  is_heap_ = true;
}

std::vector<FlowSlot> EndEstimator::EndingBy(TimePoint until) {
  if (!is_heap_) MakeHeap();
  changes_ = 0;
  std::vector<FlowSlot> found;
  std::vector<FlowSlot> behind;
  std::vector<std::size_t> open;
  if (!heap_.empty()) open.push_back(0);
  while (!open.empty()) {
    const std::size_t place = open.back();
    open.pop_back();
    const auto [key, flow] = heap_[place];
    if (key > until) continue;
    (At(flow).expected <= until ? found : behind).push_back(flow);
    for (const std::size_t child : {2 * place + 1, 2 * place + 2}) {
      if (child < heap_.size()) open.push_back(child);
    }
  }
  for (const FlowSlot flow : behind) MoveToExpected(static_cast<std::size_t>(At(flow).place));
  std::sort(found.begin(), found.end());
  return found;
}

void EndEstimator::Update(FlowSlot flow) {
  Entry& entry = At(flow);
  const auto rest = RestOf(entry);
  if (!rest || rest->seconds >= kYearSeconds) return RemoveFromHeap(flow);
  entry.expected = After(entry.reported, rest->seconds);
  if (entry.place < 0) {
    entry.place = static_cast<std::int32_t>(heap_.size());
    heap_.push_back({entry.expected, flow});
  } else if (!is_heap_ || heap_[static_cast<std::size_t>(entry.place)].key <= entry.expected) {
    return;  // the key may be early
  }
  NoteChange();
  if (!is_heap_) return;
  heap_[static_cast<std::size_t>(entry.place)] = {entry.expected, flow};
  SiftUp(static_cast<std::size_t>(entry.place));
}

void EndEstimator::MoveToExpected(std::size_t place) {
  heap_[place].key = At(heap_[place].flow).expected;
  SiftDown(place);
}

void EndEstimator::Put(std::size_t place, const Spot& spot) {
  heap_[place] = spot;
  At(spot.flow).place = static_cast<std::int32_t>(place);
}

void EndEstimator::SiftUp(std::size_t place) {
  const Spot spot = heap_[place];
  while (place > 0 && spot < heap_[(place - 1) / 2]) {
    Put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  Put(place, spot);
}

void EndEstimator::SiftDown(std::size_t place) {
  const Spot spot = heap_[place];
  while (2 * place + 1 < heap_.size()) {
    std::size_t child = 2 * place + 1;
    if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
    if (!(heap_[child] < spot)) break;
    Put(place, heap_[child]);
    place = child;
  }
  Put(place, spot);
}

void EndEstimator::RemoveFromHeap(FlowSlot flow) {
  if (At(flow).place < 0) return;
  const auto place = static_cast<std::size_t>(At(flow).place);
  At(flow).place = -1;
  const Spot last = heap_.back();
  heap_.pop_back();
  NoteChange();
  if (last.flow == flow) return;
  Put(place, last);
  if (!is_heap_) return;
  SiftUp(place);
  SiftDown(static_cast<std::size_t>(At(last.flow).place));
}

}  // namespace espalier::controller
