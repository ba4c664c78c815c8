#include "controller/routing/live_paths.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

}  // namespace

LivePaths::LivePaths(FabricView& view, Occupancy::BytesInFlight bytes_in_flight)
    : view_(view),
      occupancy_(view, std::move(bytes_in_flight)),
      sides_(2 * std::size_t{view.leaf_count()}),
      side_loads_(sides_.size()),
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
  for (std::size_t side = 0; side < sides_.size(); ++side) CountCapacity(side);
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

void LivePaths::Place(Way way, std::int32_t path) {
  const std::int32_t before = PathOf(way);
  if (before == path) return;
  if (before < 0) {
    Count(way, 1);
    SetInnerLimits();
  }
  occupancy_.Place(way, path);
  if (path < 0) {
    Count(way, -1);
    SetInnerLimits();
    return;
  }
  for (const std::uint32_t link : occupancy_.LinksOf(way)) NoteIfFull(link);
}

void LivePaths::Count(Way way, int sign) {
  const std::int64_t units = sign * occupancy_.ShareOf(way);
  CountAt(occupancy_.SourceOf(way), units);
  CountAt(view_.leaf_count() + occupancy_.DestinationOf(way), units);
}

void LivePaths::CountAt(std::size_t side, std::int64_t units) {
  SideLoad& load = side_loads_[side];
  load.units += units;
  if (load.units < load.least || load.units > load.most) [[unlikely]]
    SetLimits(side);
}

void LivePaths::CountCapacity(std::size_t index) {
  Side& side = sides_[index];
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
  SetLimits(index);
}

std::int64_t LivePaths::LimitOf(std::size_t index, std::int64_t capacity_bps) const {
  if (capacity_bps == 0 || greatest_share_ == 0) return 0;
  const Side& side = sides_[index];
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

void LivePaths::SetLimits(std::size_t index) {
  Side& side = sides_[index];
  SideLoad& load = side_loads_[index];
  load.least = 0;
  load.most = -1;
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
    occupancy_.SetLinkLimit(link, has_side_limit ? side.limit : LimitOf(index, capacity));
    NoteIfFull(link);
  }
}

void LivePaths::SetAllLimits() {
  for (std::size_t side = 0; side < sides_.size(); ++side) SetLimits(side);
  SetInnerLimits();
}

void LivePaths::SetInnerLimits() {
  if (inner_links_.empty()) return;
  std::int64_t highest = 0;
  for (std::size_t side = 0; side < sides_.size(); ++side) {
    if (sides_[side].usable_links == 0) continue;
    highest = std::max(highest, LimitOf(side, view_.unit_bps()));
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
    SetInnerLimits();
  } else {
    occupancy_.Place(way, kNoPath);
  }
  StartOne(way, before, options);
  return moves_;
}

std::span<const LivePaths::Way> LivePaths::RunOfOneSource(std::span<const Way> ways) const {
  const std::uint32_t source = occupancy_.SourceOf(ways.front());
  std::size_t length = 1;
  while (length < ways.size() && occupancy_.SourceOf(ways[length]) == source) ++length;
  return ways.first(length);
}

void LivePaths::CountAll(std::span<const Way> ways) {
  while (!ways.empty()) {
    const auto run = RunOfOneSource(ways);
    std::int64_t units = 0;
    for (const Way way : run) {
      ESPALIER_CHECK(!occupancy_.HasPath(way), "way={}", way.value());
      const std::int64_t share = occupancy_.ShareOf(way);
      units += share;
      CountAt(view_.leaf_count() + occupancy_.DestinationOf(way), share);
    }
    CountAt(occupancy_.SourceOf(run.front()), units);
    ways = ways.subspan(run.size());
  }
  SetInnerLimits();
}

std::span<const LivePaths::Move> LivePaths::StartAll(std::span<const Way> ways,
                                                     const Options& options) {
  moves_.clear();
  CountAll(ways);
  while (!ways.empty()) {
    // Those without an idle path wait until the others of their leaf have theirs: then fewer chains
    // are followed through what changes.
    const auto run = RunOfOneSource(ways);
    const auto placed = occupancy_.InsertIdle(run);
    moves_.insert(moves_.end(), placed.begin(), placed.end());
    if (placed.size() < run.size()) {
      for (const Way way : run) {
        if (!occupancy_.HasPath(way)) StartOne(way, kNoPath, options);
      }
    }
    ways = ways.subspan(run.size());
  }
  return moves_;
}

void LivePaths::StartOne(Way way, std::int32_t before, const Options& options) {
  const std::size_t begin = moves_.size();
  std::int64_t steps = options.step_budget;
  const auto chain = occupancy_.Insert(
      way, {options.max_moves, options.max_live_moves, options.max_moved_bytes}, steps);
  moves_.insert(moves_.end(), chain.rbegin(), chain.rend());
  if (moves_.size() == begin) {
    const std::int32_t path = occupancy_.LeastLoadedPath(way);
    if (path < 0) {
      if (before < 0) {
        Count(way, -1);
        SetInnerLimits();
      }
      occupancy_.Place(way, before);
      return;
    }
    occupancy_.Place(way, path);
    for (const std::uint32_t link : occupancy_.LinksOf(way)) NoteIfFull(link);
    moves_.push_back({way, kNoPath, path});
  }
  moves_.back().from = before;
  if (moves_.back().to == before) moves_.pop_back();
}

std::span<const LivePaths::Move> LivePaths::Rebalance(const Options& options) {
  moves_.clear();
  std::int64_t steps = options.step_budget;
  Occupancy::MoveBudget budget{options.max_moves, options.max_live_moves, options.max_moved_bytes};
  std::size_t kept = 0;
  for (std::size_t i = 0; i < full_.size(); ++i) {
    const std::uint32_t link = full_[i];
    const auto is_full = [&] {
      return view_.capacities()[link] > 0 && occupancy_.IsAboveLimit(link);
    };
    while (is_full() && steps > 0) {
      const auto chain = occupancy_.Relieve(link, budget, steps);
      if (chain.empty()) break;
      for (const Move& move : chain) occupancy_.Charge(move.way, budget);
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
  for (std::size_t side = 0; side < sides_.size(); ++side) {
    const std::vector<std::uint32_t>& links = sides_[side].links;
    const bool has_changed = std::any_of(links.begin(), links.end(), [&](std::uint32_t link) {
      return capacities_[link] != now[link];
    });
    if (has_changed) CountCapacity(side);
  }
  SetInnerLimits();
  capacities_.assign(now.begin(), now.end());
  return stranded_;
}

Load LivePaths::MaxLoad() const {
  std::vector<std::int64_t> usable = occupancy_.Loads();
  for (std::size_t link = 0; link < usable.size(); ++link) {
    if (view_.capacities()[link] == 0) usable[link] = 0;
  }
  return ComputeMaxLoad(view_, usable);
}

}  // namespace espalier::controller
