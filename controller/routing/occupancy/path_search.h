#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "controller/routing/occupancy/link_table.h"
#include "controller/routing/occupancy/subflow_table.h"

namespace espalier::controller {

// Chains of moves in any fabric, found breadth-first over all paths.
//
// Problem: a way needs a path, but each of its paths has a link that would be above its limit.
// Idea: a way moves to a path on which at most one link has no room for it; a way on that link
// moves away likewise; ... until one fits. Breadth-first, so that the chain that is found moves
// the fewest ways.
// Invariant: each link is the one without room of at most one move that is considered, so that the
// search ends; loads are as they are now, but for the move just before. A chain that meets itself
// is therefore tried for what it does, and taken back where a link of it is above its limit then.
// Cost: O(candidate paths looked at x their links), which `steps` bounds: of about 10 ns each.
//
// Not every chain is found: where links carry several ways, moving two ways off one link is no
// move of a chain. Both tables must outlive it. Thread safety: one thread.
class PathSearch {
 public:
  PathSearch(SubflowTable& subflows, LinkTable& links) : subflows_(subflows), links_(links) {}

  // The tables were cleared.
  void Clear() {
    visited_.assign(links_.size(), 0);
    search_ = 0;
  }

  // Finds a route for a way that has none, or takes one way off a link that is above its limit,
  // such that no link of the moves is above its limit. The moves are made, and returned in order,
  // by route (valid until the next call); none if none are found within `steps` (candidate paths
  // looked at; what is used is taken off).
  std::span<const SubflowMove> Insert(SubflowId subflow, const MoveBudget& budget,
                                      std::int64_t& steps);
  std::span<const SubflowMove> Relieve(std::uint32_t link, const MoveBudget& budget,
                                       std::int64_t& steps);

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  // A move considered: it leaves `blocked` too full, or nothing.
  struct Step {
    SubflowId subflow;
    std::int32_t to;  // route
    std::uint32_t blocked;
    std::uint32_t parent;  // kNone: the first
    MoveBudget left;       // after all up to this
  };

  void Begin();
  std::span<const SubflowMove> Search(std::int64_t& steps);
  // All moves of a way that leave at most one link too full, after the step `parent`.
  bool TryMovesOf(SubflowId subflow, std::uint32_t parent, const MoveBudget& budget,
                  std::int64_t& steps);
  // The link that a way leaves too full when it takes this route after the step `parent` (kNone:
  // it fits); nothing where it may not be taken.
  std::optional<std::uint32_t> BlockedBy(const SubflowState& state, std::int32_t route,
                                         std::uint32_t parent) const;
  // What the step before adds to a link's load.
  std::int64_t Change(const Step& step, std::uint32_t link) const;
  bool Apply(std::uint32_t last);

  SubflowTable& subflows_;
  LinkTable& links_;
  std::vector<Step> queue_;
  std::vector<std::uint32_t> visited_;  // by link: the search in which it was `blocked`
  std::uint32_t search_ = 0;
  std::vector<SubflowMove> moves_;
};

}  // namespace espalier::controller
