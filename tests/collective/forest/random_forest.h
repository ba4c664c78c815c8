#pragma once

#include <optional>
#include <random>
#include <string>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// A problem, its optimal number of trees, and a forest of the general construction without height
// reduction, whose trees are often high.
struct RawForest {
  Problem problem;
  TreeCount count;
  Forest forest;
};

// Makes one for a small random graph. None if its ranks cannot be reached.
std::optional<RawForest> MakeRandomRawForest(std::mt19937_64& random);

// Makes one for a reference case.
RawForest MakeRawForest(const std::string& name);

}  // namespace espalier::forest
