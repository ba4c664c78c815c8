#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "controller/routing/occupancy/link_table.h"
#include "controller/routing/occupancy/subflow_table.h"

namespace espalier::controller {

// Finds rearrangement chains in any fabric, by breadth-first search over all paths.
//
// Problem: a subflow needs a path, but each of its paths has a link that would exceed its limit.
// Idea: a subflow moves to a path on which at most one link has no room for it. A subflow on that
// link moves away in the same manner, and so on until one fits. The search is breadth-first, so the
// first chain that it finds moves the fewest subflows.
// Invariant: each link is the blocked link of at most one considered move, so the search ends. A
// step is checked against the present loads plus the move just before it. A chain that visits a
// link or subflow twice can thus be wrong: Apply makes the moves, and undoes them if a link of the
// chain is then above its limit.
// Cost: O(candidate paths considered x links per path), bounded by `steps` of about 10 ns each.
//
// Incomplete: it never moves two subflows off one link to make room for one that needs both places.
// Both tables must outlive it. Thread safety: one thread.
class PathSearch {
 public:
  PathSearch(SubflowTable& subflows, LinkTable& links) : subflows_(subflows), links_(links) {}

  // To be called after the tables were cleared.
  void Clear() {
    visited_.assign(links_.size(), 0);
    search_ = 0;
  }

  // Insert places a subflow without a route, Relieve takes one subflow off a link above its limit.
  // No link of the moves is above its limit afterwards. The moves are made and returned by route,
  // in the order of the chain (valid until the next call); none if no chain is found within `steps`
  // (candidate paths considered; reduced by what is used).
  std::span<const SubflowMove> Insert(SubflowId subflow, const MoveBudget& budget,
                                      std::int64_t& steps);
  std::span<const SubflowMove> Relieve(std::uint32_t link, const MoveBudget& budget,
                                       std::int64_t& steps);

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  // A considered move.
  struct Step {
    SubflowId subflow;
    std::int32_t to;        // route
    std::uint32_t blocked;  // the link that it puts above its limit; kNone: none
    std::uint32_t parent;   // the move before; kNone: this is the first
    MoveBudget left;        // after all moves up to this one
  };

  void Begin();
  std::span<const SubflowMove> Search(std::int64_t& steps);
  // Queues all moves of a subflow that put at most one link above its limit, after the step
  // `parent`. Returns true if one completes a chain, which it then makes.
  bool TryMovesOf(SubflowId subflow, std::uint32_t parent, const MoveBudget& budget,
                  std::int64_t& steps);
  // The link that this route puts above its limit after the step `parent` (kNone: it fits); none if
  // the route cannot be taken.
  std::optional<std::uint32_t> BlockedBy(const SubflowState& state, std::int32_t route,
                                         std::uint32_t parent) const;
  // How much this step adds to a link's load.
  std::int64_t Change(const Step& step, std::uint32_t link) const;
  // Makes the moves up to this step; false, without any change, if a link ends above its limit.
  bool Apply(std::uint32_t last);

  SubflowTable& subflows_;
  LinkTable& links_;
  std::vector<Step> queue_;
  std::vector<std::uint32_t> visited_;  // by link: the search in which it was `blocked`
  std::uint32_t search_ = 0;
  std::vector<SubflowMove> moves_;
};

}  // namespace espalier::controller
