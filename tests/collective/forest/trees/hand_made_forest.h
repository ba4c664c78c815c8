#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// A problem and a forest whose capacities and trees a test chooses; nothing has to be optimal.
struct HandMadeForest {
  Problem problem;
  TreeCount count;
  Forest forest;
};

struct HandMadeTree {
  Rank root = 0;
  std::int64_t count = 1;
  std::vector<std::vector<std::int32_t>> edges;  // each as the nodes from the parent to the child
};

// boxes: by node; -1 for the switches of the fabric. The first nodes, up to `ranks`, are ranks.
HandMadeForest MakeHandMadeForest(std::int32_t ranks, const std::vector<std::int32_t>& boxes,
                                  const std::vector<Arc>& arcs,
                                  const std::vector<HandMadeTree>& trees);

}  // namespace espalier::forest
