#include "collective/forest/flow/parent_flow.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

namespace espalier::forest {

bool ParentFlow::Solve(std::span<const Group> groups, std::span<const std::int64_t> capacity) {
  groups_ = groups;
  arcs_ = capacity.size();
  left_.assign(capacity.begin(), capacity.end());
  units_.assign(groups.size() * arcs_, 0);
  unmet_.assign(groups.size(), 0);
  order_.resize(groups.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t x, std::uint32_t y) {
    return std::popcount(groups[x].allowed) < std::popcount(groups[y].allowed);
  });
  for (const std::uint32_t group : order_) unmet_[group] = PlaceGreedily(group);
  for (const std::uint32_t group : order_) {
    while (unmet_[group] > 0) {
      if (!Augment(group)) return false;
    }
  }
  return true;
}

// Places the units of a group greedily; returns how many do not fit.
std::int64_t ParentFlow::PlaceGreedily(std::size_t group) {
  std::int64_t open = groups_[group].units;
  std::uint64_t candidates = groups_[group].allowed;
  while (open > 0 && candidates != 0) {
    std::size_t best = static_cast<std::size_t>(std::countr_zero(candidates));
    for (std::uint64_t bits = candidates & (candidates - 1); bits != 0; bits &= bits - 1) {
      const auto arc = static_cast<std::size_t>(std::countr_zero(bits));
      if (left_[arc] > left_[best]) best = arc;
    }
    const std::int64_t placed = std::min(open, left_[best]);
    units_[group * arcs_ + best] += placed;
    left_[best] -= placed;
    open -= placed;
    candidates &= ~(std::uint64_t{1} << best);
  }
  return open;
}

// Makes room for `group`: searches the arcs breadth-first and moves units of other groups from arc
// to arc until an arc that `group` may use has room.
bool ParentFlow::Augment(std::size_t group) {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::array<std::uint32_t, 64> through{};  // the group that would move to this arc
  std::array<std::uint32_t, 64> before{};   // and the arc that it leaves
  std::array<std::size_t, 64> queue{};
  std::uint64_t seen = groups_[group].allowed;
  std::size_t tail = 0;
  for (std::uint64_t bits = seen; bits != 0; bits &= bits - 1) {
    const auto arc = static_cast<std::size_t>(std::countr_zero(bits));
    before[arc] = kNone;
    queue[tail++] = arc;
  }
  for (std::size_t head = 0; head < tail; ++head) {
    const std::size_t arc = queue[head];
    if (left_[arc] > 0) {
      std::int64_t moved = std::min(unmet_[group], left_[arc]);
      for (std::size_t a = arc; before[a] != kNone; a = before[a]) {
        moved = std::min(moved, units_[through[a] * arcs_ + before[a]]);
      }
      left_[arc] -= moved;
      std::size_t a = arc;
      for (; before[a] != kNone; a = before[a]) {
        units_[through[a] * arcs_ + a] += moved;
        units_[through[a] * arcs_ + before[a]] -= moved;
      }
      units_[group * arcs_ + a] += moved;
      unmet_[group] -= moved;
      return true;
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (units_[g * arcs_ + arc] == 0) continue;
      for (std::uint64_t bits = groups_[g].allowed & ~seen; bits != 0; bits &= bits - 1) {
        const auto next = static_cast<std::size_t>(std::countr_zero(bits));
        seen |= std::uint64_t{1} << next;
        through[next] = static_cast<std::uint32_t>(g);
        before[next] = static_cast<std::uint32_t>(arc);
        queue[tail++] = next;
      }
    }
  }
  // All arcs that were reached are full, with units that may use no other arc.
  blocked_ = seen;
  return false;
}

}  // namespace espalier::forest
