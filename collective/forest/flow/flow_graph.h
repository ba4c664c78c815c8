#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace espalier::forest {

// The network on which flows and edge splitting work: nodes 0 ... n-1 with directed integer
// capacities between them, and a separate source s with an arc into every node (its supply). Both
// directions between two nodes are stored as one pair of numbers, so that a residual arc is found
// without a search.
//
// A plain data structure; capacities are never negative. Not thread-safe.
class FlowGraph {
 public:
  // A node's view of one neighbour: capacity[out] leads to it, capacity[out ^ 1] comes from it.
  struct Port {
    std::int32_t node = 0;
    std::int32_t out = 0;
  };

  explicit FlowGraph(std::int32_t node_count);

  std::int32_t NodeCount() const { return static_cast<std::int32_t>(ports_.size()); }
  std::span<const Port> Ports(std::int32_t node) const {
    return ports_[static_cast<std::size_t>(node)];
  }
  // The capacity between an ordered pair of nodes; 0 if there is no arc. O(smaller degree).
  std::int64_t Capacity(std::int32_t from, std::int32_t to) const;
  std::int64_t capacity(std::int32_t out) const { return capacity_[static_cast<std::size_t>(out)]; }
  std::int64_t Supply(std::int32_t node) const { return supply_[static_cast<std::size_t>(node)]; }

  // Adds `amount`, which may be negative but not below what is left. A pair of nodes without any
  // capacity is removed from their ports. O(smaller degree), or O(both degrees) if the last
  // capacity is removed.
  void Add(std::int32_t from, std::int32_t to, std::int64_t amount);
  void AddSupply(std::int32_t node, std::int64_t amount) {
    supply_[static_cast<std::size_t>(node)] += amount;
  }

 private:
  friend class PullFlow;

  const Port* FindPort(std::int32_t from, std::int32_t to) const;
  std::int32_t AddPair(std::int32_t from, std::int32_t to);
  void ErasePort(std::int32_t from, std::int32_t to);

  std::vector<std::vector<Port>> ports_;
  std::vector<std::int64_t> capacity_;
  std::vector<std::int64_t> supply_;
  std::vector<std::int32_t> free_pairs_;  // unused, for reuse
};

}  // namespace espalier::forest
