#include "tests/collective/forest/random_forest.h"

#include <utility>

#include "collective/forest/general/general_forest.h"
#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {

std::optional<RawForest> MakeRandomRawForest(std::mt19937_64& random) {
  RawForest raw;
  raw.problem = *BuildProblem(BuildTopology(MakeRandomGraph({.max_rate = 20}, random)), {});
  const auto optimality = ComputeOptimality(raw.problem);
  if (!optimality) return std::nullopt;
  raw.count = *CountTrees(raw.problem, *optimality);
  raw.forest = *BuildGeneralForest(raw.problem, raw.count);
  return raw;
}

RawForest MakeRawForest(const std::string& name) {
  RawForest raw;
  raw.problem = MakeReferenceProblem(name);
  raw.count = *CountTrees(raw.problem, *ComputeOptimality(raw.problem));
  raw.forest = *BuildGeneralForest(raw.problem, raw.count);
  return raw;
}

}  // namespace espalier::forest
