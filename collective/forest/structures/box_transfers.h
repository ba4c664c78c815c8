#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/problem/boxes.h"

namespace espalier::forest {

// A rank's way to or from a switch of the fabric, within its box.
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
  std::int32_t box = 0;        // that is entered
  std::int64_t count = 0;
};

// How every tree gets from its root's box straight to each other box, over one switch of the
// fabric; and what that leaves.
struct BoxTransfers {
  std::vector<std::vector<Port>> out_ports;  // by rank; at most 65,536 each
  std::vector<std::vector<Port>> in_ports;
  std::vector<Transfer> transfers;  // by root
  std::vector<std::size_t> begin;   // by root, into transfers; one more at the end
  std::vector<std::int64_t> left;   // capacity, by arc
};

enum class TransferOrder {
  kByRoot,         // root after root; each of them enters a box at one rank, if there is room
  kTightestFirst,  // first the trees that go between the boxes with the narrowest ways
  kSpread,         // the same, and the trees of each root enter a box at all ranks alike
};

// Every tree of root r goes once to each other box: over r's own ports to the rank at the same
// place in that box where there is room, else by other ports and ranks. None where no room is
// found, which does not prove that there is none: another order may do.
// O(ranks * boxes) where the first choices hold.
std::optional<BoxTransfers> AssignTransfers(const Problem& problem, const TreeCount& count,
                                            const Boxes& boxes, TransferOrder order);

}  // namespace espalier::forest
