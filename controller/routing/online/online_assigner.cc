#include "controller/routing/online/online_assigner.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "controller/routing/model/cut_room.h"

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

}  // namespace

// Problem: keep the load of links minimal while flows arrive and depart, in time proportional to
// the change and with few moves of flows in progress.
// Idea: the even share of a leaf's links is a local optimum, which a counter per leaf and direction
// gives at once, so that "is this link too full?" needs no global view. An arrival raises the
// counters of its two leaves, then takes a path whose links stay at or below their even shares.
// Occupancy finds it: an idle spine, a path with room, a Kempe chain or a rearrangement chain.
// Departures lower even shares and may leave links above them; these are noted in above_limit_, and
// Rebalance relieves them.
// Invariant: side_loads_ holds the sums of the shares of all subflows with a path, and of those
// that PlaceArrivals is about to place. Every usable link above its limit is in above_limit_.
// Cost: O(1) to count a subflow, as the limits of a side change only when its load leaves [least,
// most], or when the smallest or greatest share changes. Occupancy's search for a path comes on
// top.
// With base loads, SetLevel finds the even share and its bounds by a binary search (CutRoom).
// Source: de Werra 1971 for the even share; Kempe chains as in edge colouring.

OnlineAssigner::OnlineAssigner(FabricView& view, Occupancy::BytesInFlight bytes_in_flight)
    : view_(view),
      occupancy_(view, std::move(bytes_in_flight)),
      sides_(2 * std::size_t{view.leaf_count()}),
      side_loads_(sides_.size()),
      narrow_blocks_(view),
      capacities_(view.capacities().begin(), view.capacities().end()),
      is_queued_(capacities_.size()) {
  std::vector<bool> is_leaf_link(capacities_.size());
  view.ForEachLeafLink([&](std::uint32_t leaf, std::uint32_t link, bool leaves_it) {
    sides_[leaves_it ? leaf : view_.leaf_count() + leaf].links.push_back(link);
    is_leaf_link[link] = true;
  });
  for (std::uint32_t link = 0; link < is_leaf_link.size(); ++link) {
    if (view.IsSwitchLink(link) && !is_leaf_link[link]) inner_links_.push_back(link);
  }
  for (std::size_t side = 0; side < sides_.size(); ++side) CountCapacity(side);
}

SubflowId OnlineAssigner::Add(std::uint32_t source, std::uint32_t destination, std::int64_t share) {
  const SubflowId subflow = occupancy_.Add(source, destination, share, false);
  CountShare(share, 1);
  return subflow;
}

void OnlineAssigner::SetShare(SubflowId subflow, std::int64_t share) {
  const std::int32_t path = PathOf(subflow);
  Place(subflow, kNoPath);
  CountShare(occupancy_.ShareOf(subflow), -1);
  occupancy_.SetShare(subflow, share);
  CountShare(share, 1);
  Place(subflow, path);
}

void OnlineAssigner::Remove(SubflowId subflow) {
  Place(subflow, kNoPath);
  CountShare(occupancy_.ShareOf(subflow), -1);
  occupancy_.Remove(subflow);
}

// Only the smallest and the greatest share of all subflows decide limits. Most subflows have the
// same share, so the count of the most recent one is kept at hand: while it stays above 0, and was
// there before, neither of the two can have changed.
void OnlineAssigner::CountShare(std::int64_t share, int sign) {
  const bool is_recent = recent_share_ != nullptr && recent_share_->first == share;
  if (!is_recent) recent_share_ = &*share_counts_.try_emplace(share, 0).first;
  recent_share_->second += static_cast<std::size_t>(sign);
  if (is_recent && recent_share_->second != 0) return;
  if (recent_share_->second == 0 && share_counts_.size() > 1) {
    share_counts_.erase(share);
    recent_share_ = nullptr;
  }
  const std::int64_t smallest = share_counts_.begin()->first;
  const std::int64_t greatest = share_counts_.rbegin()->first;
  if (smallest == smallest_share_ && greatest == greatest_share_) return;
  smallest_share_ = smallest;
  greatest_share_ = greatest;
  SetAllLimits();
}

void OnlineAssigner::Place(SubflowId subflow, std::int32_t path) {
  const std::int32_t before = PathOf(subflow);
  if (before == path) return;
  if (before < 0) {
    Count(subflow, 1);
    SetInnerLimits();
  }
  occupancy_.Place(subflow, path);
  if (path < 0) {
    Count(subflow, -1);
    SetInnerLimits();
    return;
  }
  for (const std::uint32_t link : occupancy_.LinksOf(subflow)) QueueIfAboveLimit(link);
}

void OnlineAssigner::Count(SubflowId subflow, int sign) {
  const std::int64_t units = sign * occupancy_.ShareOf(subflow);
  CountAt(occupancy_.SourceOf(subflow), units);
  CountAt(view_.leaf_count() + occupancy_.DestinationOf(subflow), units);
  CountAtBlocks(subflow, units);
}

void OnlineAssigner::CountAtBlocks(SubflowId subflow, std::int64_t units) {
  if (narrow_blocks_.empty()) return;
  const bool has_changed = narrow_blocks_.Count(
      occupancy_.SourceOf(subflow), occupancy_.DestinationOf(subflow), units, smallest_share_);
  is_limit_changed_ = is_limit_changed_ || has_changed;
}

void OnlineAssigner::CountAt(std::size_t side, std::int64_t units) {
  SideLoad& load = side_loads_[side];
  load.units += units;
  if (load.units < load.least || load.units > load.most) [[unlikely]]
    SetLimits(side);
}

void OnlineAssigner::CountCapacity(std::size_t index) {
  Side& side = sides_[index];
  side.usable_links = 0;
  side.capacity_bps = 0;
  side.equal_rates = true;
  side.has_base = false;
  std::int64_t rate = 0;
  for (const std::uint32_t link : side.links) {
    const std::int64_t capacity = view_.capacities()[link];
    if (capacity == 0) continue;
    if (rate == 0) rate = capacity;
    ++side.usable_links;
    side.capacity_bps += capacity;
    side.equal_rates = side.equal_rates && capacity == rate;
    side.has_base = side.has_base || occupancy_.BaseOf(link) > 0;
  }
  SetLimits(index);
}

std::int64_t OnlineAssigner::LimitOf(std::size_t index, std::int64_t capacity_bps) const {
  if (capacity_bps == 0 || greatest_share_ == 0) return 0;
  const Side& side = sides_[index];
  if (side.has_base)
    return static_cast<std::int64_t>(Wide{side.limit} * capacity_bps / side.fastest_bps);
  const std::int64_t units = side_loads_[index].units;
  std::int64_t shares = 0;
  if (side.equal_rates) {
    const std::int64_t room = side.usable_links * smallest_share_;
    shares = (units + room - 1) / room;
  } else {
    const Wide room = Wide{side.capacity_bps} * smallest_share_;
    shares = static_cast<std::int64_t>((Wide{units} * capacity_bps + room - 1) / room);
  }
  return std::max(greatest_share_, shares * smallest_share_);
}

void OnlineAssigner::SetLimits(std::size_t index) {
  Side& side = sides_[index];
  SideLoad& load = side_loads_[index];
  is_limit_changed_ = true;
  load.least = 0;
  load.most = -1;
  if (side.has_base && greatest_share_ > 0) return SetLevel(index);
  if (side.equal_rates && greatest_share_ > 0) {
    side.limit = LimitOf(index, side.capacity_bps);
    const std::int64_t shares = side.limit / smallest_share_;
    const std::int64_t room = side.usable_links * smallest_share_;
    load.least = side.limit == greatest_share_ ? 0 : (shares - 1) * room + 1;
    load.most = shares * room;
  }
  for (const std::uint32_t link : side.links) {
    const std::int64_t capacity = view_.capacities()[link];
    const bool has_side_limit = side.equal_rates && capacity > 0;
    const std::int64_t limit = has_side_limit ? side.limit : LimitOf(index, capacity);
    occupancy_.SetLinkLimit(link, std::max(limit, occupancy_.BaseOf(link)));
    QueueIfAboveLimit(link);
  }
}

void OnlineAssigner::SetLevel(std::size_t index) {
  Side& side = sides_[index];
  SideLoad& load = side_loads_[index];
  std::vector<std::int64_t> capacities;
  std::vector<std::int64_t> base;
  for (const std::uint32_t link : side.links) {
    if (view_.capacities()[link] == 0) continue;
    capacities.push_back(view_.capacities()[link]);
    base.push_back(occupancy_.BaseOf(link));
  }
  const CutRoom room(capacities, base, smallest_share_);
  const std::int64_t shares = (load.units + smallest_share_ - 1) / smallest_share_;
  const std::int64_t level = shares == 0 ? 0 : room.LevelFor(shares);
  side.fastest_bps = room.fastest_bps();
  side.limit = std::max(level, room.LevelForOne(greatest_share_));
  load.least = side.limit > level ? 0 : room.PortionsAt(level - 1) * smallest_share_ + 1;
  load.most = room.PortionsAt(side.limit) * smallest_share_;
  for (const std::uint32_t link : side.links) {
    const std::int64_t limit = LimitOf(index, view_.capacities()[link]);
    // A base load alone is no reason to relieve a link.
    occupancy_.SetLinkLimit(link, std::max(limit, occupancy_.BaseOf(link)));
    QueueIfAboveLimit(link);
  }
}

void OnlineAssigner::SetAllLimits() {
  for (std::size_t side = 0; side < sides_.size(); ++side) SetLimits(side);
  RecomputeInnerLimits();
}

std::int64_t OnlineAssigner::UnitLimitOf(std::size_t index) const {
  const Side& side = sides_[index];
  if (greatest_share_ == 0 || side.usable_links == 0) return 0;
  if (!side.equal_rates || side.has_base) return LimitOf(index, view_.unit_bps());
  return static_cast<std::int64_t>(Wide{side.limit} * view_.unit_bps() * side.usable_links /
                                   side.capacity_bps);
}

void OnlineAssigner::SetInnerLimits() {
  if (inner_links_.empty() || !is_limit_changed_) return;
  is_limit_changed_ = false;
  std::int64_t highest = 0;
  for (std::size_t side = 0; side < sides_.size(); ++side) {
    highest = std::max(highest, UnitLimitOf(side));
  }
  if (smallest_share_ > 0) highest = std::max(highest, narrow_blocks_.EvenShare(smallest_share_));
  if (highest == highest_limit_) return;
  highest_limit_ = highest;
  for (const std::uint32_t link : inner_links_) {
    const Wide limit = Wide{highest} * view_.capacities()[link] / view_.unit_bps();
    occupancy_.SetLinkLimit(link,
                            std::max(static_cast<std::int64_t>(limit), occupancy_.BaseOf(link)));
    QueueIfAboveLimit(link);
  }
}

void OnlineAssigner::RecomputeInnerLimits() {
  is_limit_changed_ = true;
  highest_limit_ = -1;
  SetInnerLimits();
}

void OnlineAssigner::QueueIfAboveLimit(std::uint32_t link) {
  if (view_.capacities()[link] == 0 || !occupancy_.IsAboveLimit(link) || is_queued_[link]) return;
  is_queued_[link] = true;
  above_limit_.push_back(link);
}

std::span<const OnlineAssigner::Move> OnlineAssigner::Start(SubflowId subflow,
                                                            const Options& options) {
  moves_.clear();
  const std::int32_t before = PathOf(subflow);
  if (before < 0) {
    Count(subflow, 1);
    SetInnerLimits();
  } else {
    occupancy_.Place(subflow, kNoPath);
  }
  StartOne(subflow, before, options);
  return moves_;
}

std::span<const SubflowId> OnlineAssigner::RunOfOneSource(
    std::span<const SubflowId> subflows) const {
  const std::uint32_t source = occupancy_.SourceOf(subflows.front());
  std::size_t length = 1;
  while (length < subflows.size() && occupancy_.SourceOf(subflows[length]) == source) ++length;
  return subflows.first(length);
}

void OnlineAssigner::CountAll(std::span<const SubflowId> subflows) {
  while (!subflows.empty()) {
    const auto run = RunOfOneSource(subflows);
    std::int64_t units = 0;
    for (const SubflowId subflow : run) {
      ESPALIER_CHECK(!occupancy_.HasPath(subflow), "subflow={} has a path", subflow.value());
      const std::int64_t share = occupancy_.ShareOf(subflow);
      units += share;
      CountAt(view_.leaf_count() + occupancy_.DestinationOf(subflow), share);
      CountAtBlocks(subflow, share);
    }
    CountAt(occupancy_.SourceOf(run.front()), units);
    subflows = subflows.subspan(run.size());
  }
  SetInnerLimits();
}

std::span<const OnlineAssigner::Move> OnlineAssigner::PlaceArrivals(
    std::span<const SubflowId> subflows, const Options& options) {
  moves_.clear();
  CountAll(subflows);
  Options now = options;
  std::int64_t steps_left = options.steps_of_all;
  while (!subflows.empty()) {
    // Subflows without an idle path wait until all others of their leaf are placed, so that fewer
    // chains run over links that are about to change.
    const auto run = RunOfOneSource(subflows);
    const auto placed = occupancy_.InsertIdle(run);
    moves_.insert(moves_.end(), placed.begin(), placed.end());
    if (placed.size() < run.size()) {
      for (const SubflowId subflow : run) {
        if (occupancy_.HasPath(subflow)) continue;
        now.step_budget = std::clamp<std::int64_t>(steps_left, 0, options.step_budget);
        steps_left -= StartOne(subflow, kNoPath, now);
      }
    }
    subflows = subflows.subspan(run.size());
  }
  return moves_;
}

std::int64_t OnlineAssigner::StartOne(SubflowId subflow, std::int32_t before,
                                      const Options& options) {
  const std::size_t begin = moves_.size();
  std::int64_t steps = options.step_budget;
  const auto chain = occupancy_.Insert(
      subflow, {options.max_moves, options.max_in_progress_moves, options.max_moved_bytes}, steps);
  moves_.insert(moves_.end(), chain.rbegin(), chain.rend());
  if (moves_.size() == begin) {
    const std::int32_t path = occupancy_.LeastLoadedPath(subflow);
    if (path < 0) {
      if (before < 0) {
        Count(subflow, -1);
        SetInnerLimits();
      }
      occupancy_.Place(subflow, before);
      return options.step_budget - steps;
    }
    occupancy_.Place(subflow, path);
    for (const std::uint32_t link : occupancy_.LinksOf(subflow)) QueueIfAboveLimit(link);
    moves_.push_back({subflow, kNoPath, path});
  }
  moves_.back().from = before;
  if (moves_.back().to == before) moves_.pop_back();
  return options.step_budget - steps;
}

std::span<const OnlineAssigner::Move> OnlineAssigner::Rebalance(const Options& options) {
  moves_.clear();
  std::int64_t steps = options.step_budget;
  Occupancy::MoveBudget budget{options.max_moves, options.max_in_progress_moves,
                               options.max_moved_bytes};
  std::size_t kept = 0;
  for (std::size_t i = 0; i < above_limit_.size(); ++i) {
    const std::uint32_t link = above_limit_[i];
    const auto is_full = [&] {
      return view_.capacities()[link] > 0 && occupancy_.IsAboveLimit(link);
    };
    while (is_full() && steps > 0) {
      const auto chain = occupancy_.Relieve(link, budget, steps);
      if (chain.empty()) break;
      for (const Move& move : chain) occupancy_.Charge(move.subflow, budget);
      moves_.insert(moves_.end(), chain.rbegin(), chain.rend());
    }
    is_queued_[link] = is_full();
    if (is_queued_[link]) above_limit_[kept++] = link;
  }
  above_limit_.resize(kept);
  return moves_;
}

std::span<const SubflowId> OnlineAssigner::HandleLinkChange() {
  affected_.clear();
  const auto now = view_.capacities();
  for (std::uint32_t link = 0; link < now.size(); ++link) {
    if (now[link] == 0 && view_.IsSwitchLink(link)) {
      const auto subflows = occupancy_.SubflowsOn(link);
      affected_.insert(affected_.end(), subflows.begin(), subflows.end());
    }
  }
  std::sort(affected_.begin(), affected_.end());
  affected_.erase(std::unique(affected_.begin(), affected_.end()), affected_.end());
  for (std::size_t side = 0; side < sides_.size(); ++side) {
    const std::vector<std::uint32_t>& links = sides_[side].links;
    const bool has_changed = std::any_of(links.begin(), links.end(), [&](std::uint32_t link) {
      return capacities_[link] != now[link];
    });
    if (has_changed) CountCapacity(side);
  }
  narrow_blocks_.HandleLinkChange();
  RecomputeInnerLimits();
  capacities_.assign(now.begin(), now.end());
  return affected_;
}

void OnlineAssigner::SetBaseLoads(std::span<const std::int64_t> units) {
  const auto before = occupancy_.base_loads();
  const std::vector<std::int64_t> old(before.begin(), before.end());
  occupancy_.SetBaseLoads(units);
  for (std::size_t side = 0; side < sides_.size(); ++side) {
    const std::vector<std::uint32_t>& links = sides_[side].links;
    const bool has_changed = std::any_of(links.begin(), links.end(), [&](std::uint32_t link) {
      return (old.empty() ? 0 : old[link]) != occupancy_.BaseOf(link);
    });
    if (has_changed) CountCapacity(side);
  }
  RecomputeInnerLimits();
}

Load OnlineAssigner::MaxLoad() const {
  std::vector<std::int64_t> usable = occupancy_.Loads();
  for (std::size_t link = 0; link < usable.size(); ++link) {
    if (view_.capacities()[link] == 0) usable[link] = 0;
  }
  return ComputeMaxLoad(view_, usable);
}

}  // namespace espalier::controller
