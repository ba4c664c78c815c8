#pragma once

#include <cstdint>
#include <vector>

#include "controller/routing/phases/phase_problem.h"

namespace espalier::controller {

// Lower bounds on the worst load of links that carry movable flows, whatever the assignment.
struct PhaseBounds {
  Load all;  // on the greatest of them
  // By link, as units on it: the even share of its leaf. For a link that touches no leaf, `all`.
  std::vector<std::int64_t> even_share;
  // By phase: on the greatest load that a link has while only this phase is busy.
  std::vector<Load> alone;
};

// What is low enough.
struct PhaseGoals {
  std::vector<std::int64_t> links;  // by link: units of its worst load
  // By phase: the greatest load of a link while only this phase is busy. Empty: any is.
  std::vector<Load> phases;
};

// Computes them from cuts. A cut is what a leaf sends, or receives, or what goes from one leaf to
// another, in the phases (one of each job) in which this is most. The cut's bound is the smallest
// load at which its links have room for that, beside the loads of others and of unmovable flows;
// shares are indivisible. O(flows' phases + leaves x links of a leaf, squared if their base loads
// differ).
PhaseBounds ComputePhaseBounds(const PhaseProblem& problem);

// The greatest load of a link, in units, that is at most `load`, or less than it.
std::int64_t UnitsAtMost(const FabricView& view, const Load& load, std::uint32_t link);
std::int64_t UnitsBelow(const FabricView& view, const Load& load, std::uint32_t link);

}  // namespace espalier::controller
