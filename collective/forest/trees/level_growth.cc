#include "collective/forest/trees/level_growth.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace espalier::forest {

LevelGrowth::LevelGrowth(const Problem& problem, const HalfRoutes& half_routes, TreeTable& trees)
    : problem_(problem),
      half_routes_(half_routes),
      trees_(trees),
      ranks_(trees.RankCount()),
      progress_(trees.TreeCountOf()),
      order_(trees.TreeCountOf() * ranks_),
      first_(static_cast<std::size_t>(problem.node_count), kNoRank),
      next_(ranks_, kNoRank),
      senders_(static_cast<std::size_t>(problem.node_count)),
      waits_(ranks_, 0),
      offers_(ranks_) {
  // The order is cyclic from the root, so that not all trees leave the same ranks for the end.
  for (std::uint32_t t = 0; t < trees.TreeCountOf(); ++t) {
    Rank* const order = Order(t);
    std::iota(order, order + ranks_, Rank{0});
    std::rotate(order, order + trees.RootOf(t), order + ranks_);
  }
}

bool LevelGrowth::Grow(const Control& control) {
  for (bool grew = true; grew;) {
    grew = false;
    for (std::uint32_t t = 0; t < trees_.TreeCountOf(); ++t) {
      if (control.IsCancelled()) return false;
      grew |= GrowLevel(t);
    }
  }
  return true;
}

std::vector<TreeTable::Edge> LevelGrowth::Pending() const {
  std::vector<Edge> pending;
  for (std::uint32_t t = 0; t < trees_.TreeCountOf(); ++t) {
    for (std::size_t i = progress_[t].reached; i < ranks_; ++i) {
      pending.push_back({t, order_[t * ranks_ + i]});
    }
  }
  return pending;
}

// Grows a tree by one level; returns whether it can grow further.
bool LevelGrowth::GrowLevel(std::uint32_t tree) {
  const Progress& progress = progress_[tree];
  if (progress.reached == ranks_ || progress.done == progress.reached) return false;
  const std::span<const Rank> order(Order(tree), ranks_);
  const std::span<const Rank> waiting = order.subspan(progress.reached);
  for (const Rank rank : waiting) ListWaiting({tree, rank});
  for (std::size_t i = progress.done; i < progress.reached; ++i) ListSender(tree, order[i]);
  for (const Rank rank : offered_) {
    trees_.Attach({tree, rank}, std::exchange(offers_[rank], {}).sender);
  }
  offered_.clear();
  for (const std::int32_t hub : hubs_) ServeHub(tree, static_cast<std::size_t>(hub));
  hubs_.clear();
  for (const Rank rank : waiting) waits_[rank] = 0;
  return Advance(tree);
}

void LevelGrowth::ListWaiting(const Edge& edge) {
  const std::int32_t hub = trees_.InOf(edge).hub;
  if (problem_.IsRank(hub)) {
    waits_[edge.child] = 1;
    return;
  }
  Rank& first = first_[static_cast<std::size_t>(hub)];
  if (first == kNoRank) hubs_.push_back(hub);
  next_[edge.child] = std::exchange(first, edge.child);
}

// Lists a sender at every hub where ranks wait for which it has room.
void LevelGrowth::ListSender(std::uint32_t tree, Rank rank) {
  const std::int64_t trees = trees_.CountOf(tree);
  const std::span<const HalfRoute> half_routes = half_routes_.Out(rank);
  for (std::size_t i = 0; i < half_routes.size(); ++i) {
    const auto hub = static_cast<std::size_t>(half_routes[i].hub);
    const bool is_rank = problem_.IsRank(half_routes[i].hub);
    if (is_rank ? waits_[hub] == 0 : first_[hub] == kNoRank) continue;
    const std::int64_t room = trees_.RoomOf(half_routes[i]);
    if (room < trees) continue;
    const Sender sender{rank, static_cast<std::uint16_t>(i)};
    if (!is_rank) {
      senders_[hub].push_back(sender);
      continue;
    }
    if (offers_[hub].room == 0) offered_.push_back(static_cast<Rank>(hub));
    if (room > offers_[hub].room) offers_[hub] = {sender, room};
  }
}

// Serves the ranks that wait at a switch.
void LevelGrowth::ServeHub(std::uint32_t tree, std::size_t hub) {
  std::vector<Sender>& senders = senders_[hub];
  for (Rank rank = std::exchange(first_[hub], kNoRank); rank != kNoRank && !senders.empty();
       rank = next_[rank]) {
    const Edge edge{tree, rank};
    if (const auto sender = ChooseSender(edge, senders)) trees_.Attach(edge, *sender);
  }
  senders.clear();
}

// Chooses the sender with the most room among a few; senders without room are removed from the
// list.
std::optional<TreeTable::Sender> LevelGrowth::ChooseSender(const Edge& edge,
                                                           std::vector<Sender>& senders) {
  constexpr std::size_t kLooks = 4;
  const HalfRoute& in = trees_.InOf(edge);
  std::optional<Sender> best;
  std::int64_t most = trees_.CountOf(edge.tree) - 1;
  for (std::size_t i = 0; i < kLooks && i < senders.size();) {
    const std::size_t at = (turn_ + i) % senders.size();
    const HalfRoute& out = half_routes_.Out(senders[at].rank, senders[at].out);
    const std::int64_t room = trees_.RoomOf(out);
    if (room < trees_.CountOf(edge.tree)) {
      senders[at] = senders.back();
      senders.pop_back();
      continue;
    }
    if (room > most && half_routes_.GoTogether(out, in)) {
      most = room;
      best = senders[at];
    }
    ++i;
  }
  ++turn_;
  return best;
}

// Makes the ranks reached last the next senders; returns whether there are any.
bool LevelGrowth::Advance(std::uint32_t tree) {
  Progress& progress = progress_[tree];
  Rank* const order = Order(tree);
  const std::span<const Rank> parents = trees_.Parents(tree);
  const Rank* const middle =
      std::stable_partition(order + progress.reached, order + ranks_,
                            [&](Rank rank) { return parents[rank] != kNoRank; });
  progress.done = std::exchange(progress.reached, static_cast<std::size_t>(middle - order));
  return progress.done < progress.reached;
}

}  // namespace espalier::forest
