#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/forest/model/rational.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// A compute node that takes part, by its index in Problem::ranks. 16 bits, as a forest stores a
// parent for each pair of ranks.
using Rank = std::uint16_t;
inline constexpr Rank kNoRank = 0xFFFF;
inline constexpr std::size_t kMaxRanks = 0xFFFF;

// All capacity from one node to another; parallel links form one arc.
struct Arc {
  std::int32_t tail = 0;  // node
  std::int32_t head = 0;
  std::int64_t capacity = 0;  // > 0; in units of Problem::unit
  bool operator==(const Arc&) const = default;
};

// The input of forest construction: the paper's G = (Vs + Vc, E) in dense integers. The first nodes
// are the ranks, in the order of the topology; then come all nodes that forward (switches, NICs).
//
// It leaves out links that are DOWN or DRAINED or have no capacity left, and compute nodes that are
// not ranks, with their links (a GPU forwards only for its own job).
//
// Every node is balanced unless the caller opted out: as much capacity enters as leaves (Eulerian;
// the paper's assumption b). A plain value without references to the topology that it was made
// from.
struct Problem {
  std::int32_t node_count = 0;
  std::int32_t rank_count = 0;  // N; nodes 0 ... N-1 are the ranks
  std::vector<Arc> arcs;        // sorted by (tail, head), no two alike
  // weight[r]: size of rank r's shard, as a multiple of a common unit (gcd 1). 1 for all ranks in
  // uniform collectives; a single 1 for broadcast. 0: the rank only receives.
  std::vector<std::int64_t> weight;
  BitsPerSecond unit;  // the rate that capacity 1 stands for: the gcd of all rates

  // References to the topology.
  std::vector<fabric::NodeId> topology_node;  // by node
  std::vector<std::string> names;             // by node
  std::vector<std::int32_t> links_begin;      // CSR by arc over links
  std::vector<fabric::DirectedLink> links;    // each arc's links, in the topology's order
  // Hops to the nearest compute node in the whole topology, dead links included (0 for ranks). They
  // define up and down on paths.
  std::vector<std::int32_t> tier;
  // True for switches that belong to no host: ECMP chooses the paths through them.
  std::vector<bool> in_fabric;
  std::vector<bool> multicast;  // by node: the switch can copy
  std::vector<bool> reduce;     // by node: the switch can add up

  bool IsRank(std::int32_t node) const { return node < rank_count; }
  std::span<const fabric::DirectedLink> LinksOf(std::size_t arc) const {
    return {links.data() + links_begin[arc], links.data() + links_begin[arc + 1]};
  }
  std::int64_t TotalWeight() const;
  // Returns the arc from tail to head, or -1. O(log arcs).
  std::int32_t FindArc(std::int32_t tail, std::int32_t head) const;
  // Convert a value in 1/unit (such as 1/x* or U) to 1/(Gbit/s), and a value in units to Gbit/s.
  // None if the exact terms exceed 127 bits.
  std::optional<Rational> PerGbps(const Rational& per_unit) const;
  std::optional<Rational> Gbps(const Rational& units) const;
};

// Returns the same collective on reversed links. Trees of the result, reversed, are in-trees of the
// original (reduce-scatter from allgather on one-way links).
Problem Transpose(const Problem& problem);

}  // namespace espalier::forest
