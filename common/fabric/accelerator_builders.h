#pragma once

#include <span>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::fabric {

// The machines and networks that papers on collectives compute with. All links go both ways.
// GPU b of box a is "box<a>/gpu<b>" on host "box<a>"; NIC n of a builder has the address 10.0.0.0 +
// 2n + 1, its switch's end 10.0.0.0 + 2n.
// Errors: kInvalidArgument for counts below 1 (dimensions: 2), beyond 65,536 nodes or 4,194,304
// links, and for rates that are not positive.

struct BoxOptions {
  int boxes = 2;
};

// 8 GPUs a box: 2,400 Gbit/s to "box<a>/nvswitch"; with more than one box 200 Gbit/s to the NIC
// "box<a>/nic<b>" and on to the switch "ib<b mod 2>".
Result<TopologySpec> BuildA100(const BoxOptions& options);

// 8 GPUs a box: 3,600 Gbit/s to "box<a>/nvswitch"; with more than one box 400 Gbit/s to the one
// switch "ib0" (a GPU is its own NIC).
Result<TopologySpec> BuildH100(const BoxOptions& options);

struct Mi250Options {
  int boxes = 2;
  bool half = false;  // only GPUs 0 to 7 of each box, and the links among them
};
// 16 GPUs a box, joined directly by 1 to 4 lanes of 400 Gbit/s each (one link of that sum); with
// more than one box 128 Gbit/s from every GPU to the one switch "ib0".
Result<TopologySpec> BuildMi250(const Mi250Options& options);

struct RingOptions {
  int nodes = 8;
  bool directed = false;  // only from n to n + 1
  BitsPerSecond rate{1'000'000'000};
};
// "n0" to "n1" to ... to "n0".
Result<TopologySpec> BuildRing(const RingOptions& options);

// Nodes "n0", "n1", ... in row-major order (the last dimension varies fastest), each joined to both
// neighbours in every dimension; where a dimension is 2 these are one node, and two links.
Result<TopologySpec> BuildTorus(std::span<const int> dimensions, BitsPerSecond rate);

// 2^dimension nodes; "n<i>" and "n<j>" are joined where i and j differ in one bit.
Result<TopologySpec> BuildHypercube(int dimension, BitsPerSecond rate);

}  // namespace espalier::fabric
