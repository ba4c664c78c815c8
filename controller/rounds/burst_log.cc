#include "controller/rounds/burst_log.h"

#include <algorithm>

namespace espalier::controller {
namespace {

// Reports of two hosts about one moment differ by less than kBurstGap. Hosts of a ring, of which
// one is slow, begin by parts of a burst apart.
constexpr int kPartOfBurst = 8;
constexpr int kPartOfPeriod = 5;  // so that chance seldom finds two unrelated flows together
constexpr TimePoint kLasts = TimePoint::max();

Duration Length(const Burst& burst) {
  return burst.ended == kLasts ? Duration::max() : burst.ended - burst.began;
}

}  // namespace

double PartWithin(const Burst& burst, const Burst& other) {
  const Duration common = std::min(burst.ended, other.ended) - std::max(burst.began, other.began);
  const Duration length = other.ended - other.began;
  if (common <= Duration{} || length <= Duration{}) return 0;
  return static_cast<double>(common.count()) / static_cast<double>(length.count());
}

bool BurstLog::Begin(TimePoint at) {
  if (!bursts_.empty() &&
      (bursts_.back().ended == kLasts || at - bursts_.back().ended < kBurstGap)) {
    bursts_.back().ended = kLasts;
    return false;
  }
  if (bursts_.size() >= kept_) bursts_.erase(bursts_.begin());
  bursts_.push_back({at, kLasts});
  return true;
}

void BurstLog::End(TimePoint at) {
  if (!bursts_.empty()) bursts_.back().ended = std::max(bursts_.back().began, at);
}

BurstLog BurstLog::Kept(std::size_t kept) const {
  BurstLog log(kept);
  const std::size_t first = bursts_.size() - std::min(bursts_.size(), kept);
  log.bursts_.assign(bursts_.begin() + static_cast<std::ptrdiff_t>(first), bursts_.end());
  return log;
}

std::optional<BurstLog::Place> BurstLog::PlaceOf(const Burst& burst) const {
  if (bursts_.size() < 2) return std::nullopt;
  auto nearest = std::ranges::lower_bound(bursts_, burst.began, {}, &Burst::began);
  if (nearest == bursts_.end()) --nearest;
  if (nearest != bursts_.begin()) {
    const auto before = nearest - 1;
    if (burst.began - before->began < nearest->began - burst.began) nearest = before;
  }
  Duration period = Duration::max();
  if (nearest != bursts_.begin()) period = nearest->began - (nearest - 1)->began;
  if (nearest + 1 != bursts_.end())
    period = std::min(period, (nearest + 1)->began - nearest->began);
  const Duration shorter = std::min(Length(burst), Length(*nearest));
  Place place{.age = static_cast<std::size_t>(bursts_.end() - nearest) - 1,
              .offset = burst.began - nearest->began};
  place.tolerance = std::min(std::max(kBurstGap, shorter / kPartOfBurst), period / kPartOfPeriod);
  place.is_beside = std::chrono::abs(place.offset) <= std::max(place.tolerance, shorter / 2);
  // It may begin in the second half of a burst, nearer to the next one.
  const auto next = std::ranges::upper_bound(bursts_, burst.began, {}, &Burst::began);
  place.is_within = next != bursts_.begin() && burst.ended - place.tolerance <= (next - 1)->ended;
  return place;
}

bool BurstLog::BeginsBetween(TimePoint after, TimePoint before) const {
  const auto first = std::ranges::upper_bound(bursts_, after, {}, &Burst::began);
  return first != bursts_.end() && first->began < before;
}

}  // namespace espalier::controller
