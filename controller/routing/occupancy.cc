#include "controller/routing/occupancy.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

bool Contains(std::span<const std::uint32_t> links, std::uint32_t link) {
  return std::find(links.begin(), links.end(), link) != links.end();
}

}  // namespace

void Occupancy::Clear() {
  const std::size_t links = view_.capacities().size();
  ways_.clear();
  free_ways_.clear();
  loads_.assign(links, 0);
  limits_.assign(links, 0);
  visited_.assign(links, 0);
  search_ = 0;
  ways_on_.resize(links);
  for (auto& ways : ways_on_) ways.clear();
}

Occupancy::Way Occupancy::Add(std::uint32_t source, std::uint32_t destination, std::int64_t share,
                              bool pinned) {
  const WayState state{&view_.Candidates(source, destination), share, -1, pinned};
  if (free_ways_.empty()) {
    ways_.push_back(state);
    return static_cast<Way>(ways_.size() - 1);
  }
  const Way way = free_ways_.back();
  free_ways_.pop_back();
  ways_[way] = state;
  return way;
}

void Occupancy::Remove(Way way) {
  Place(way, -1);
  free_ways_.push_back(way);
}

void Occupancy::Put(Way way, std::int32_t path, int sign) {
  if (path < 0) return;
  const WayState& state = ways_[way];
  for (const std::uint32_t link : state.candidates->Hops(static_cast<std::size_t>(path))) {
    loads_[link] += sign * state.share;
    auto& on = ways_on_[link];
    if (sign > 0) {
      on.push_back(way);
    } else {
      const auto found = std::find(on.begin(), on.end(), way);
      ESPALIER_CHECK(found != on.end(), "way={} link={}", way, link);
      *found = on.back();
      on.pop_back();
    }
  }
}

void Occupancy::Place(Way way, std::int32_t path) {
  Put(way, ways_[way].path, -1);
  ways_[way].path = path;
  Put(way, path, 1);
}

void Occupancy::SetShare(Way way, std::int64_t share) {
  WayState& state = ways_[way];
  if (state.path >= 0) {
    for (const auto link : state.candidates->Hops(static_cast<std::size_t>(state.path))) {
      loads_[link] += share - state.share;
    }
  }
  state.share = share;
}

std::int32_t Occupancy::LeastLoadedPath(Way way) const {
  const WayState& state = ways_[way];
  const auto capacities = view_.capacities();
  std::int32_t best = -1;
  std::int64_t best_load = 0;
  std::int64_t best_capacity = 1;
  for (std::size_t path = 0; path < state.candidates->size(); ++path) {
    const auto hops = state.candidates->Hops(path);
    if (!view_.IsUsable(hops)) continue;
    std::int64_t load = 0;
    std::int64_t capacity = 1;
    for (const std::uint32_t link : hops) {
      const std::int64_t with = loads_[link] + state.share;
      if (Wide{with} * capacity <= Wide{load} * capacities[link]) continue;
      load = with;
      capacity = capacities[link];
    }
    if (best >= 0 && Wide{load} * best_capacity >= Wide{best_load} * capacity) continue;
    best = static_cast<std::int32_t>(path);
    best_load = load;
    best_capacity = capacity;
  }
  return best;
}

void Occupancy::SetLimit(const Load& load, Bound bound) {
  const auto capacities = view_.capacities();
  const Wide denominator = Wide{load.denominator} * view_.unit_bps();
  for (std::size_t link = 0; link < limits_.size(); ++link) {
    const Wide units = Wide{load.numerator} * kLoadUnit * capacities[link];
    const Wide limit =
        bound == Bound::kAtMost ? units / denominator : (units + denominator - 1) / denominator - 1;
    limits_[link] = static_cast<std::int64_t>(std::max(limit, Wide{0}));
  }
}

std::span<const Occupancy::Move> Occupancy::Insert(Way way, std::size_t max_moves,
                                                   std::int64_t& steps) {
  ++search_;
  queue_.clear();
  moves_.clear();
  if (TryMovesOf(way, kNone, steps)) return moves_;
  return Search(max_moves + 1, steps);
}

std::span<const Occupancy::Move> Occupancy::Relieve(std::uint32_t link, std::size_t max_moves,
                                                    std::int64_t& steps) {
  ++search_;
  queue_.clear();
  moves_.clear();
  visited_[link] = search_;
  // (A copy: what is on the link changes when moves are made.)
  const std::vector<Way> on = ways_on_[link];
  for (const Way way : on) {
    if (!ways_[way].pinned && TryMovesOf(way, kNone, steps)) return moves_;
  }
  return Search(max_moves, steps);
}

std::span<const Occupancy::Move> Occupancy::Search(std::size_t max_moves, std::int64_t& steps) {
  // Breadth first: the shortest chain moves the fewest flows.
  for (std::uint32_t next = 0; next < queue_.size() && steps > 0; ++next) {
    const Step step = queue_[next];
    if (step.depth >= max_moves) continue;
    for (std::size_t i = 0; i < ways_on_[step.blocked].size(); ++i) {
      const Way way = ways_on_[step.blocked][i];
      const std::int64_t relieved =
          loads_[step.blocked] + Change(step, step.blocked) - ways_[way].share;
      if (ways_[way].pinned || way == step.way || relieved > limits_[step.blocked]) continue;
      if (TryMovesOf(way, next, steps)) return moves_;
    }
  }
  return {};
}

std::int64_t Occupancy::Change(const Step& step, std::uint32_t link) const {
  const WayState& state = ways_[step.way];
  std::int64_t change = 0;
  if (Contains(state.candidates->Hops(static_cast<std::size_t>(step.to)), link)) {
    change += state.share;
  }
  if (state.path >= 0 &&
      Contains(state.candidates->Hops(static_cast<std::size_t>(state.path)), link)) {
    change -= state.share;
  }
  return change;
}

bool Occupancy::TryMovesOf(Way way, std::uint32_t parent, std::int64_t& steps) {
  const WayState& state = ways_[way];
  const std::uint32_t leaving = parent == kNone ? kNone : queue_[parent].blocked;
  const std::uint32_t depth = parent == kNone ? 1 : queue_[parent].depth + 1;
  steps -= static_cast<std::int64_t>(state.candidates->size());
  for (std::size_t path = 0; path < state.candidates->size(); ++path) {
    if (static_cast<std::int32_t>(path) == state.path) continue;
    const auto hops = state.candidates->Hops(path);
    const auto old_hops = state.path < 0
                              ? std::span<const std::uint32_t>()
                              : state.candidates->Hops(static_cast<std::size_t>(state.path));
    std::uint32_t blocked = kNone;
    bool possible = true;
    for (const std::uint32_t link : hops) {
      if (view_.capacities()[link] == 0 || link == leaving) {
        possible = false;
        break;
      }
      std::int64_t load = loads_[link] + (Contains(old_hops, link) ? 0 : state.share);
      if (load > limits_[link] && parent != kNone) load += Change(queue_[parent], link);
      if (load <= limits_[link]) continue;
      // One way can be pushed off one link. (The first step relieves a link that it leaves.)
      if (blocked != kNone || visited_[link] == search_) {
        possible = false;
        break;
      }
      blocked = link;
    }
    if (!possible) continue;
    queue_.push_back({way, static_cast<std::int32_t>(path), blocked, parent, depth});
    if (blocked == kNone) {
      if (Apply(static_cast<std::uint32_t>(queue_.size() - 1))) return true;
      queue_.pop_back();
    } else {
      visited_[blocked] = search_;
    }
  }
  return false;
}

bool Occupancy::Apply(std::uint32_t last) {
  moves_.clear();
  for (std::uint32_t at = last; at != kNone; at = queue_[at].parent) {
    moves_.push_back({queue_[at].way, ways_[queue_[at].way].path, queue_[at].to});
  }
  std::reverse(moves_.begin(), moves_.end());
  for (const Move& move : moves_) Place(move.way, move.to);
  // A chain may meet itself (a way or a link twice); what it does then is seen only now.
  const bool fits = std::all_of(moves_.begin(), moves_.end(), [&](const Move& move) {
    const WayState& state = ways_[move.way];
    const auto hops = state.candidates->Hops(static_cast<std::size_t>(state.path));
    return state.path == move.to &&
           std::none_of(hops.begin(), hops.end(), [&](auto link) { return IsAboveLimit(link); });
  });
  if (fits) return true;
  for (auto move = moves_.rbegin(); move != moves_.rend(); ++move) Place(move->way, move->from);
  moves_.clear();
  return false;
}

}  // namespace espalier::controller
