#include "collective/forest/problem/circulation.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::forest {

namespace {

// Removes capacity along paths, as a flow: capacity that was removed from an arc can be given back.
class Trimmer {
 public:
  Trimmer(std::int32_t node_count, std::span<const Arc> arcs, std::vector<std::int64_t>& capacity)
      : arcs_(arcs),
        capacity_(capacity),
        original_(capacity),
        surplus_(static_cast<std::size_t>(node_count), 0),
        incident_(static_cast<std::size_t>(node_count)),
        reached_by_(static_cast<std::size_t>(node_count), kUnseen) {
    for (std::size_t a = 0; a < arcs.size(); ++a) {
      surplus_[Tail(a)] += capacity[a];
      surplus_[Head(a)] -= capacity[a];
      incident_[Tail(a)].push_back(a);
      incident_[Head(a)].push_back(a);
    }
  }

  void Run() {
    for (std::size_t node = 0; node < surplus_.size(); ++node) {
      while (surplus_[node] > 0) RemovePathFrom(node);
    }
  }

 private:
  static constexpr std::size_t kUnseen = static_cast<std::size_t>(-1);
  static constexpr std::size_t kStart = static_cast<std::size_t>(-2);

  std::size_t Tail(std::size_t arc) const { return static_cast<std::size_t>(arcs_[arc].tail); }
  std::size_t Head(std::size_t arc) const { return static_cast<std::size_t>(arcs_[arc].head); }

  // Returns the node across an arc if the removal can continue through it from `node`, else
  // kUnseen.
  std::size_t Across(std::size_t arc, std::size_t node) const {
    if (Tail(arc) == node && capacity_[arc] > 0) return Head(arc);
    if (Head(arc) == node && capacity_[arc] < original_[arc]) return Tail(arc);
    return kUnseen;
  }

  // Searches breadth-first for the nearest node with excess incoming capacity.
  std::size_t FindDeficit(std::size_t from) {
    std::fill(reached_by_.begin(), reached_by_.end(), kUnseen);
    reached_by_[from] = kStart;
    queue_.assign(1, from);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      const std::size_t node = queue_[i];
      if (surplus_[node] < 0) return node;
      for (const std::size_t arc : incident_[node]) {
        const std::size_t next = Across(arc, node);
        if (next == kUnseen || reached_by_[next] != kUnseen) continue;
        reached_by_[next] = arc;
        queue_.push_back(next);
      }
    }
    ESPALIER_CHECK(false, "node={}", from);
    return from;
  }

  void RemovePathFrom(std::size_t from) {
    const std::size_t to = FindDeficit(from);
    std::int64_t amount = std::min(surplus_[from], -surplus_[to]);
    for (std::size_t node = to; node != from;) {
      const std::size_t arc = reached_by_[node];
      const bool forward = Head(arc) == node;
      amount = std::min(amount, forward ? capacity_[arc] : original_[arc] - capacity_[arc]);
      node = forward ? Tail(arc) : Head(arc);
    }
    for (std::size_t node = to; node != from;) {
      const std::size_t arc = reached_by_[node];
      const bool forward = Head(arc) == node;
      capacity_[arc] += forward ? -amount : amount;
      node = forward ? Tail(arc) : Head(arc);
    }
    surplus_[from] -= amount;
    surplus_[to] += amount;
  }

  std::span<const Arc> arcs_;
  std::vector<std::int64_t>& capacity_;
  std::vector<std::int64_t> original_;
  std::vector<std::int64_t> surplus_;  // outgoing minus incoming
  std::vector<std::vector<std::size_t>> incident_;
  std::vector<std::size_t> reached_by_;  // by node: the arc that reached it
  std::vector<std::size_t> queue_;
};

}  // namespace

void TrimToCirculation(std::int32_t node_count, std::span<const Arc> arcs,
                       std::vector<std::int64_t>& capacity) {
  Trimmer(node_count, arcs, capacity).Run();
}

}  // namespace espalier::forest
