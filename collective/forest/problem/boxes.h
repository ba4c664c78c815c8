#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/problem.h"

namespace espalier::forest {

// A division of a problem's nodes into boxes, parts that hold together by links of their own, and
// the fabric that joins them.
struct Boxes {
  static constexpr std::int32_t kFabric = -1;
  std::vector<std::int32_t> box_of;              // by node; kFabric for what is in none
  std::vector<std::vector<Rank>> ranks;          // by box, ascending
  std::vector<std::vector<std::int32_t>> inner;  // by box: its nodes that are no ranks, ascending
};

// Divisions worth trying, the likeliest first: by what belongs to hosts; by what is left when
// everything that forwards from some tier on is taken away (racks, pods); by what is left without
// the switches with most neighbours. Each has two boxes or more, one of them with several ranks.
// Deterministic. O(tiers * arcs).
std::vector<Boxes> FindBoxes(const Problem& problem);

}  // namespace espalier::forest
