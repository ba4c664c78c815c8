#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collective/forest/model/forest.h"

namespace espalier::forest {

// One edge of a tree and the one route that its data takes.
struct TreeEdge {
  Rank parent = 0;
  Rank child = 0;
  const Route* route = nullptr;
};

// `count` trees that agree in every edge and route.
struct RoutedTree {
  std::size_t tree_class = 0;
  Rank root = 0;
  std::int64_t count = 0;
  std::span<const TreeEdge> edges;  // by depth: a parent's own edge comes before its children's
  std::int32_t height = 0;
};

// Calls `visit` with every routed tree of a sound forest, class after class. A class whose edges
// span several routes yields several trees. Stops when visit returns false.
void VisitRoutedTrees(const Forest& forest, const std::function<bool(const RoutedTree&)>& visit);

}  // namespace espalier::forest
