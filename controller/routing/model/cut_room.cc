#include "controller/routing/model/cut_room.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

}  // namespace

// Problem: links with different base loads and capacities take indivisible portions. How full does
// the fullest link get that takes one, at best?
// Idea: as water fills a vessel with an uneven floor, each link takes portions up to a common
// level. A binary search finds the smallest whole level with room for all. If capacities differ,
// the exact level lies within the unit below it. In this unit each link takes at most one more
// portion, so the exact level is that of the n-th of these, where n are the portions still missing.
// Invariant: a level of `low` has too little room, a level of `high` has enough.

CutRoom::CutRoom(std::span<const std::int64_t> capacities_bps,
                 std::span<const std::int64_t> base_loads, std::int64_t portion)
    : capacities_(capacities_bps), base_(base_loads), portion_(portion) {
  ESPALIER_CHECK(!capacities_.empty() && portion_ > 0, "portion={}", portion_);
  fastest_bps_ = *std::max_element(capacities_.begin(), capacities_.end());
  equal_rates_ = std::all_of(capacities_.begin(), capacities_.end(),
                             [&](std::int64_t capacity) { return capacity == fastest_bps_; });
  if (base_.empty()) return;
  const auto [least, most] = std::minmax_element(base_.begin(), base_.end());
  least_base_ = *least;
  most_base_ = *most;
}

std::int64_t CutRoom::PortionsOn(std::size_t link, std::int64_t level) const {
  const std::int64_t units =
      equal_rates_ ? level
                   : static_cast<std::int64_t>(Wide{level} * capacities_[link] / fastest_bps_);
  const std::int64_t room = units - (base_.empty() ? 0 : base_[link]);
  return room <= 0 ? 0 : room / portion_;
}

std::int64_t CutRoom::PortionsAt(std::int64_t level) const {
  std::int64_t portions = 0;
  for (std::size_t link = 0; link < capacities_.size(); ++link) portions += PortionsOn(link, level);
  return portions;
}

std::int64_t CutRoom::LevelFor(std::int64_t portions) const {
  const auto links = static_cast<std::int64_t>(capacities_.size());
  std::int64_t low = 0;
  std::int64_t high = most_base_ + portions * portion_;  // the fastest link takes all
  if (equal_rates_) {
    const std::int64_t even = (portions + links - 1) / links * portion_;
    low = least_base_ + even - 1;
    high = most_base_ + even;
    if (low + 1 == high) return high;
  }
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    (PortionsAt(middle) >= portions ? high : low) = middle;
  }
  return high;
}

std::int64_t CutRoom::LevelForOne(std::int64_t share) const {
  Wide least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t link = 0; link < capacities_.size(); ++link) {
    const Wide units = Wide{base_.empty() ? 0 : base_[link]} + share;
    least = std::min(least, (units * fastest_bps_ + capacities_[link] - 1) / capacities_[link]);
  }
  return static_cast<std::int64_t>(least);
}

Load CutRoom::LoadFor(const FabricView& view, std::int64_t portions) const {
  const std::int64_t level = LevelFor(portions);
  if (equal_rates_) return MakeLoad(view, level, fastest_bps_);
  struct Step {
    std::int64_t units;
    std::int64_t capacity;
  };
  std::vector<Step> steps;
  std::int64_t missing = portions;
  for (std::size_t link = 0; link < capacities_.size(); ++link) {
    const std::int64_t taken = PortionsOn(link, level - 1);
    missing -= taken;
    const std::int64_t units = (base_.empty() ? 0 : base_[link]) + (taken + 1) * portion_;
    if (Wide{units} * fastest_bps_ > Wide{level} * capacities_[link]) continue;
    steps.push_back({units, capacities_[link]});
  }
  ESPALIER_CHECK(missing >= 1 && static_cast<std::size_t>(missing) <= steps.size(),
                 "missing={} steps={}", missing, steps.size());
  const auto last = steps.begin() + (missing - 1);
  std::nth_element(steps.begin(), last, steps.end(), [](const Step& x, const Step& y) {
    return Wide{x.units} * y.capacity < Wide{y.units} * x.capacity;
  });
  return MakeLoad(view, last->units, last->capacity);
}

}  // namespace espalier::controller
