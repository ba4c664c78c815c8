#include "controller/routing/live_paths.h"

#include <algorithm>

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

}  // namespace

LivePaths::LivePaths(FabricView& view)
    : view_(view),
      occupancy_(view),
      sides_(2 * std::size_t{view.leaf_count()}),
      capacities_(view.capacities().begin(), view.capacities().end()),
      is_in_full_(capacities_.size()) {
  std::vector<bool> is_leaf_link(capacities_.size());
  view.ForEachLeafLink([&](std::uint32_t leaf, std::uint32_t link, bool leaves_it) {
    sides_[leaves_it ? leaf : view_.leaf_count() + leaf].links.push_back(link);
    is_leaf_link[link] = true;
  });
  for (std::uint32_t link = 0; link < is_leaf_link.size(); ++link) {
    if (view.IsSwitchLink(link) && !is_leaf_link[link]) inner_links_.push_back(link);
  }
  for (Side& side : sides_) CountCapacity(side);
}

LivePaths::Way LivePaths::Add(std::uint32_t source, std::uint32_t destination, std::int64_t share) {
  const Way way = occupancy_.Add(source, destination, share, false);
  CountShare(share, 1);
  return way;
}

void LivePaths::Remove(Way way) {
  Place(way, kNoPath);
  CountShare(occupancy_.ShareOf(way), -1);
  occupancy_.Remove(way);
}

void LivePaths::CountShare(std::int64_t share, int sign) {
  std::size_t& count = share_counts_[share];
  const bool is_first = count == 0;
  count += static_cast<std::size_t>(sign);
  if (count == 0 && share_counts_.size() > 1) share_counts_.erase(share);
  const bool is_last = sign < 0 && !share_counts_.contains(share);
  if (is_last || (is_first && share_counts_.size() > 1)) SetAllLimits();
}

void LivePaths::Place(Way way, std::int32_t path) {
  const std::int32_t before = PathOf(way);
  if (before == path) return;
  if (before < 0) Count(way, 1);
  occupancy_.Place(way, path);
  if (path < 0) {
    Count(way, -1);
    return;
  }
  for (const std::uint32_t link : occupancy_.LinksOf(way)) NoteIfFull(link);
}

void LivePaths::Count(Way way, int sign) {
  for (Side* side : {&SenderOf(way), &ReceiverOf(way)}) {
    side->units += sign * occupancy_.ShareOf(way);
    SetLimits(*side);
  }
  SetInnerLimits();
}

void LivePaths::CountCapacity(Side& side) {
  side.usable_links = 0;
  side.capacity_bps = 0;
  side.equal_rates = true;
  std::int64_t rate = 0;
  for (const std::uint32_t link : side.links) {
    const std::int64_t capacity = view_.capacities()[link];
    if (capacity == 0) continue;
    if (rate == 0) rate = capacity;
    ++side.usable_links;
    side.capacity_bps += capacity;
    side.equal_rates = side.equal_rates && capacity == rate;
  }
  side.limit = -1;  // its links' limits are to be set
  SetLimits(side);
}

std::int64_t LivePaths::LimitOf(const Side& side, std::int64_t capacity_bps) const {
  if (capacity_bps == 0 || side.units == 0) return 0;
  const std::int64_t smallest = share_counts_.begin()->first;
  const std::int64_t greatest = share_counts_.rbegin()->first;
  std::int64_t shares = 0;
  if (side.equal_rates) {
    const std::int64_t room = side.usable_links * smallest;
    shares = (side.units + room - 1) / room;
  } else {
    const Wide room = Wide{side.capacity_bps} * smallest;
    shares = static_cast<std::int64_t>((Wide{side.units} * capacity_bps + room - 1) / room);
  }
  return std::max(greatest, shares * smallest);
}

void LivePaths::SetLimits(Side& side) {
  if (side.equal_rates) {
    const std::int64_t limit = LimitOf(side, side.capacity_bps);
    if (limit == side.limit) return;
    side.limit = limit;
  }
  for (const std::uint32_t link : side.links) {
    const std::int64_t capacity = view_.capacities()[link];
    const bool has_side_limit = side.equal_rates && capacity > 0;
    occupancy_.SetLinkLimit(link, has_side_limit ? side.limit : LimitOf(side, capacity));
    NoteIfFull(link);
  }
}

void LivePaths::SetAllLimits() {
  for (Side& side : sides_) {
    side.limit = -1;
    SetLimits(side);
  }
  SetInnerLimits();
}

void LivePaths::SetInnerLimits() {
  if (inner_links_.empty()) return;
  std::int64_t highest = 0;
  for (const Side& side : sides_) {
    if (side.usable_links > 0) highest = std::max(highest, LimitOf(side, view_.unit_bps()));
  }
  for (const std::uint32_t link : inner_links_) {
    const Wide limit = Wide{highest} * view_.capacities()[link] / view_.unit_bps();
    occupancy_.SetLinkLimit(link, static_cast<std::int64_t>(limit));
    NoteIfFull(link);
  }
}

void LivePaths::NoteIfFull(std::uint32_t link) {
  if (view_.capacities()[link] == 0 || !occupancy_.IsAboveLimit(link) || is_in_full_[link]) return;
  is_in_full_[link] = true;
  full_.push_back(link);
}

std::span<const LivePaths::Move> LivePaths::Start(Way way, const Options& options) {
  moves_.clear();
  const std::int32_t before = PathOf(way);
  if (before < 0) {
    Count(way, 1);
  } else {
    occupancy_.Place(way, kNoPath);
  }
  std::int64_t steps = options.step_budget;
  const auto chain = occupancy_.Insert(way, {options.max_moves, options.max_moved_bytes}, steps);
  moves_.assign(chain.rbegin(), chain.rend());
  if (moves_.empty()) {
    const std::int32_t path = occupancy_.LeastLoadedPath(way);
    if (path < 0) {
      if (before < 0) Count(way, -1);
      occupancy_.Place(way, before);
      return {};
    }
    occupancy_.Place(way, path);
    for (const std::uint32_t link : occupancy_.LinksOf(way)) NoteIfFull(link);
    moves_.push_back({way, kNoPath, path});
  }
  moves_.back().from = before;
  if (moves_.back().to == before) moves_.pop_back();
  return moves_;
}

std::span<const LivePaths::Move> LivePaths::Rebalance(const Options& options) {
  moves_.clear();
  std::int64_t steps = options.step_budget;
  Occupancy::MoveBudget budget{options.max_moves, options.max_moved_bytes};
  std::size_t kept = 0;
  for (std::size_t i = 0; i < full_.size(); ++i) {
    const std::uint32_t link = full_[i];
    const auto is_full = [&] {
      return view_.capacities()[link] > 0 && occupancy_.IsAboveLimit(link);
    };
    while (is_full() && steps > 0) {
      const auto chain = occupancy_.Relieve(link, budget, steps);
      if (chain.empty()) break;
      for (const Move& move : chain) budget.bytes -= occupancy_.BytesOf(move.way);
      budget.moves -= chain.size();
      moves_.insert(moves_.end(), chain.rbegin(), chain.rend());
    }
    is_in_full_[link] = is_full();
    if (is_in_full_[link]) full_[kept++] = link;
  }
  full_.resize(kept);
  return moves_;
}

std::span<const LivePaths::Way> LivePaths::HandleLinkChange() {
  stranded_.clear();
  const auto now = view_.capacities();
  for (std::uint32_t link = 0; link < now.size(); ++link) {
    if (now[link] == 0 && view_.IsSwitchLink(link)) {
      const auto ways = occupancy_.WaysOn(link);
      stranded_.insert(stranded_.end(), ways.begin(), ways.end());
    }
  }
  std::sort(stranded_.begin(), stranded_.end());
  stranded_.erase(std::unique(stranded_.begin(), stranded_.end()), stranded_.end());
  for (Side& side : sides_) {
    const bool has_changed =
        std::any_of(side.links.begin(), side.links.end(),
                    [&](std::uint32_t link) { return capacities_[link] != now[link]; });
    if (has_changed) CountCapacity(side);
  }
  SetInnerLimits();
  capacities_.assign(now.begin(), now.end());
  return stranded_;
}

Load LivePaths::MaxLoad() const {
  std::vector<std::int64_t> usable(loads().begin(), loads().end());
  for (std::size_t link = 0; link < usable.size(); ++link) {
    if (view_.capacities()[link] == 0) usable[link] = 0;
  }
  return ComputeMaxLoad(view_, usable);
}

}  // namespace espalier::controller
