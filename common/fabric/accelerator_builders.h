#pragma once

#include <span>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::fabric {

// Build the machines and networks that papers on collectives use. All links are bidirectional
// unless an option says otherwise. GPU b of box a is "box<a>/gpu<b>" on host "box<a>". NIC n of a
// builder has the address 10.0.0.0 + 2n + 1, and its switch's end of the link 10.0.0.0 + 2n.
// Errors: kInvalidArgument for counts below 1 (dimensions: 2), more than 65,536 nodes or 4,194,304
// links, and for rates that are not positive.

struct BoxOptions {
  int boxes = 2;
};

// 8 GPUs per box, with 2,400 Gbit/s each to "box<a>/nvswitch". With more than one box, each GPU has
// 200 Gbit/s to the NIC "box<a>/nic<b>" and from there to the switch "ib<b mod 2>".
Result<TopologySpec> BuildA100(const BoxOptions& options);

// 8 GPUs per box, with 3,600 Gbit/s each to "box<a>/nvswitch". With more than one box, each GPU has
// 400 Gbit/s to the switch "ib0" (a GPU is its own NIC).
Result<TopologySpec> BuildH100(const BoxOptions& options);

struct Mi250Options {
  int boxes = 2;
  bool half = false;  // only GPUs 0 to 7 of each box and the links between them
};
// 16 GPUs per box, linked directly by 1 to 4 lanes of 400 Gbit/s each (one link with their sum).
// With more than one box, every GPU has 128 Gbit/s to the switch "ib0".
Result<TopologySpec> BuildMi250(const Mi250Options& options);

struct RingOptions {
  int nodes = 8;
  bool directed = false;  // only from n to n + 1
  BitsPerSecond rate{1'000'000'000};
};
// A ring from "n0" to "n1" and so on, back to "n0".
Result<TopologySpec> BuildRing(const RingOptions& options);

// Nodes "n0", "n1", ... in row-major order (the last dimension varies fastest), each linked to both
// neighbours in every dimension. In a dimension of 2, both neighbours are one node with two links.
Result<TopologySpec> BuildTorus(std::span<const int> dimensions, BitsPerSecond rate);

// 2^dimension nodes; "n<i>" and "n<j>" are linked if i and j differ in one bit.
Result<TopologySpec> BuildHypercube(int dimension, BitsPerSecond rate);

}  // namespace espalier::fabric
