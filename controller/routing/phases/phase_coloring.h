#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "controller/routing/phases/phase_problem.h"

namespace espalier::controller {

// Computes routes from scratch by edge colourings, one for each phase: see AssignPhases. It applies
// to a 2-tier Clos with equal links whose leaves in use all reach the same spines; none elsewhere.
//
// If no two phases of a job have a flow in common, shares are equal, nothing else is on the links,
// and all flows are movable, then no link carries more than ceil(sum of K_j / spines) shares, where
// K_j is the greatest degree of a leaf in a phase of job j. Unmovable flows stay at home. Of the
// numberings of colours that give this, one that agrees with the present paths is chosen.
// Complexity: O(flows x phases + colourings + sum of K_j x spines x leaves of the job).
std::optional<std::vector<std::uint32_t>> ColorPhases(const PhaseProblem& problem);

}  // namespace espalier::controller
