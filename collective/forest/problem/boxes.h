#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/problem.h"

namespace espalier::forest {

// A division of a problem's nodes into boxes, which are connected by links of their own, and the
// fabric that joins the boxes.
struct Boxes {
  static constexpr std::int32_t kFabric = -1;
  std::vector<std::int32_t> box_of;              // by node; kFabric for nodes in no box
  std::vector<std::vector<Rank>> ranks;          // by box, ascending
  std::vector<std::vector<std::int32_t>> inner;  // by box: its nodes other than ranks, ascending
};

// Finds divisions worth trying, the most likely first: by hosts; by the parts that remain without
// the forwarding nodes of some tier and above (racks, pods); by the parts that remain without the
// switches with the most neighbours. Each division has at least two boxes, one of them with several
// ranks.
// Deterministic. O(tiers * arcs).
std::vector<Boxes> FindBoxes(const Problem& problem);

}  // namespace espalier::forest
