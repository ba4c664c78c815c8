#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// The linear program of the best allreduce (ForestColl, appendix B.7): it chooses how much of the
// data each rank is the root of, and how each link is divided between the trees that reduce and
// those that broadcast.
//
// Variables:
//   x_v: the share of which rank v is the root.
//   c_l: for each of the two kinds of trees, the capacity of an arc l between ranks.
//   f_t,l <= c_l: for every rank t and arc l, a flow that brings x_v from every other rank v to t.
// For the trees that reduce, the flow goes from t to v, which is the same flow on reversed arcs.
// Without switches, the arcs between ranks are the links. With switches, they are all pairs of
// ranks, and the capacities out of one rank are routed over the links as one commodity. If the arcs
// are their own reverse, some best solution is symmetric, so one half is left out.
//
// The text is in CPLEX's LP format and maximises `rate`, the sum of the x_v in units of the
// problem.
// Errors: kResourceExhausted for more than kMaxProgramVariables variables.
inline constexpr std::int64_t kMaxProgramVariables = 400'000;
Result<std::string> WriteAllreduceProgram(const Problem& problem);

// Reads `rate` from a solution written by cbc. Errors: kResourceExhausted if cbc found no optimum
// within its time limit; kInternal if the text is not a solution file.
Result<double> ReadAllreduceRate(std::string_view solution);

}  // namespace espalier::forest
