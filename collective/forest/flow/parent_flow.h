#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace espalier::forest {

// Solves a small transportation problem: groups of units, each allowed on some of up to 64 arcs of
// limited capacity. One object serves many problems without further allocation.
class ParentFlow {
 public:
  struct Group {
    std::uint64_t allowed = 0;  // bit j: arc j
    std::int64_t units = 0;
  };

  // Finds how many units of each group take each arc so that all units are placed. Returns false if
  // that is impossible. The most constrained groups go first, each to the allowed arc with the most
  // room; augmenting paths over the arcs then place what does not fit, so the answer is exact.
  bool Solve(std::span<const Group> groups, std::span<const std::int64_t> capacity);

  // After a Solve that returned false: arcs that are too few for the groups that may only use them.
  std::uint64_t blocked() const { return blocked_; }

  // The result of Solve, by group and arc.
  std::int64_t Units(std::size_t group, std::size_t arc) const {
    return units_[group * arcs_ + arc];
  }

 private:
  std::int64_t PlaceGreedily(std::size_t group);
  bool Augment(std::size_t group);

  std::span<const Group> groups_;
  std::size_t arcs_ = 0;
  std::vector<std::int64_t> units_;
  std::vector<std::int64_t> left_;   // by arc
  std::vector<std::int64_t> unmet_;  // by group
  std::uint64_t blocked_ = 0;
  std::vector<std::uint32_t> order_;  // groups, the most constrained first
};

}  // namespace espalier::forest
