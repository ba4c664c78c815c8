#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/problem/boxes.h"

namespace espalier::forest {

// A rank's route to or from a fabric switch, within its box.
struct Port {
  std::int32_t fabric_switch = 0;
  bool routable = true;            // tiers do not fall on the way up
  std::vector<std::int32_t> hops;  // arcs, in the direction of the data
};

// `count` trees of a root enter a box: from `exit`, a rank of the root's box, to `entry`.
struct Transfer {
  Rank root = 0;
  Rank exit = 0;
  Rank entry = 0;
  std::uint16_t out_port = 0;  // of `exit`
  std::uint16_t in_port = 0;   // of `entry`
  std::int32_t box = 0;        // the box that is entered
  std::int64_t count = 0;
};

// How every tree gets from its root's box directly to each other box, over one fabric switch, and
// the capacity that remains.
struct BoxTransfers {
  std::vector<std::vector<Port>> out_ports;  // by rank; at most 65,536 each
  std::vector<std::vector<Port>> in_ports;
  std::vector<Transfer> transfers;  // by root
  std::vector<std::size_t> begin;   // by root, into transfers; one more at the end
  std::vector<std::int64_t> left;   // remaining capacity, by arc
};

enum class TransferOrder {
  kByRoot,         // root after root; each enters a box at one rank if there is room
  kTightestFirst,  // trees between the most loaded boxes first
  kSpread,         // the same, and the trees of each root enter a box at all its ranks evenly
};

// Routes every tree of root r once to each other box: over r's own ports to the rank with the same
// index in that box if there is room, else by other ports and ranks. Returns none if no room is
// found. That does not prove that there is none: another order may succeed. O(ranks * boxes) if the
// first choices hold.
std::optional<BoxTransfers> AssignTransfers(const Problem& problem, const TreeCount& count,
                                            const Boxes& boxes, TransferOrder order);

}  // namespace espalier::forest
