#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/phases/phase_problem.h"

namespace espalier::controller {

struct PhaseOptions {
  // How long the longest of five searches may take, in looks at a route of about 100 ns each. All
  // together take at most three and a half times as long.
  std::int64_t step_budget = 1'000'000;
  // Lowers every link towards the even share of its leaf, though the maximum may be higher
  // elsewhere: without it, one leaf that has lost most of its links would excuse collisions on all
  // others. The same for each phase alone. false: only the maximum counts, and fewer flows move.
  bool every_leaf = true;
};

struct PhaseAssignment {
  // By flow; an index into the paths between its leaves. kNoPath: within one leaf, or no usable
  // path. A flow that is not movable keeps its path, usable or not.
  std::vector<std::int32_t> paths;
  // The greatest worst load of a link that carries a movable flow.
  Load max_load;
  Load lower_bound;  // no assignment has a lower max_load
  std::int64_t excess =
      0;  // over the links' even shares, in 1 / kLoadUnit of a flow; see every_leaf
  // The greatest load that each phase alone puts on a link with a movable flow of it, with the base
  // load, the greatest first. Phases that are part of others are left out. Empty without
  // every_leaf.
  std::vector<Load> alone;
  std::size_t moved = 0;    // flows that had a usable path and get another one
  bool is_optimal = false;  // max_load equals lower_bound
};

// Assigns one path to each flow for all phases of its job, so that the most loaded link carries as
// little as possible in the worst case, then so that each phase is spread as well as possible when
// only it is busy, the most loaded phase first, and then so that few flows move (RLM, sections 3.3
// and 3.4.2). As a path serves all phases, no port changes between phases.
//
// The worst load of a directed link is its base load, plus for each job the maximum over its phases
// of the shares of the phase's flows on it: jobs drift against each other, so any phases of two
// jobs can meet. Loads are relative to capacities. Flows in no phase count as busy all the time.
// `base_loads`: what others put on each directed link, in 1 / kLoadUnit of a flow; empty: nothing.
//
// Guarantees: the result is exact (is_optimal) on a 2-tier Clos whose leaves in use reach the same
// spines over equal links, without base loads and unmovable flows, and with equal shares, if
// (a) there is one job, and no two of its phases have a flow in common: the maximum over phases of
//     ceil(degree / spines) shares; or
// (b) there are several such jobs, and some leaf has for each job a phase of that job's greatest
//     degree K_j: ceil(sum of K_j / spines) shares, although the union of all flows may need more.
// Whenever is_optimal is set, no assignment has a lower maximum, on any fabric. If all links, and
// all phases alone, are within their bounds under the present paths, nothing moves. Otherwise moves
// are few, but not proven to be the fewest: an assignment from scratch is taken if it has a lower
// maximum, phases with lower loads alone, or for every 16 moves one flow less above the bounds.
//
// Complexity: O(flows x routes x phases of a flow) and the colourings, plus the search, which
// step_budget bounds. Deterministic; no clock is read. Errors: a flow index out of range, a
// negative share, or base loads of another fabric abort.
PhaseAssignment AssignPhases(const FabricView& view, std::span<const std::int64_t> base_loads,
                             std::span<const PhaseFlow> flows, std::span<const PhasedJob> jobs,
                             const PhaseOptions& options = {});

}  // namespace espalier::controller
