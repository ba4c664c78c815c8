#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// The linear program of the best allreduce (ForestColl, appendix B.7): how much each rank is the
// root of, and how each link is divided between the trees that collect and those that spread.
//
// Variables: x_v, what v is the root of; c_l, the capacity of an arc l between ranks for each of
// the two; for every rank t and arc l a flow f_t,l <= c_l that brings x_v from every other rank v
// to t (for the trees that collect: from t to v, which is the same on the arcs turned round).
// Without switches the arcs between ranks are the links. With switches they are all pairs of
// ranks, and what they have is routed over the links as one commodity for each sender. Where the
// arcs are the same turned round, so is one half of some best solution: it is left out.
//
// In CPLEX's LP format, to maximise `rate`, the sum of the x_v in units of the problem.
// Errors: kResourceExhausted past kMaxProgramVariables.
inline constexpr std::int64_t kMaxProgramVariables = 400'000;
Result<std::string> WriteAllreduceProgram(const Problem& problem);

// `rate` from the solution that cbc writes. Errors: kResourceExhausted where it found no optimum in
// its time; kInternal for what is no such file.
Result<double> ReadAllreduceRate(std::string_view solution);

}  // namespace espalier::forest
