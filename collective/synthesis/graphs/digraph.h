#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::synthesis {

// All links from one node to another.
struct Arc {
  std::int32_t tail = 0;
  std::int32_t head = 0;
  std::int64_t capacity = 1;  // > 0: parallel links, or their bandwidth in a common unit
  bool operator==(const Arc&) const = default;
};

constexpr std::int32_t kMaxNodes = 1 << 14;
constexpr std::int64_t kMaxCapacity = std::int64_t{1} << 40;  // of one arc

// A direct-connect network (dissertation, section 3.3.1): nodes 0 ... N-1 joined by links without
// switches. Parallel arcs are merged. Self-loops carry nothing and are left out of the arcs, but
// count in the degree, as they use ports.
//
// A value. Thread safety: const calls from any thread.
class Digraph {
 public:
  Digraph() = default;
  // Precondition: the ends of the arcs are in 0 ... node_count - 1, capacities are positive.
  Digraph(std::int32_t node_count, std::vector<Arc> arcs);

  std::int32_t node_count() const { return node_count_; }
  // Sorted by (head, tail).
  std::span<const Arc> arcs() const { return arcs_; }
  // The arcs into a node, as a range of indices of arcs().
  std::pair<std::int32_t, std::int32_t> Into(std::int32_t node) const {
    return {into_[static_cast<std::size_t>(node)], into_[static_cast<std::size_t>(node) + 1]};
  }
  // Returns the index of the arc, or -1. O(log of the arcs into `head`).
  std::int32_t Find(std::int32_t tail, std::int32_t head) const;
  // The largest capacity that enters or leaves a node, self-loops included: d.
  std::int64_t degree() const { return degree_; }
  bool has_self_loops() const { return has_self_loops_; }
  // Whether every node has d in and out; without self-loops or parallel links; with every arc's
  // reverse.
  bool is_regular() const { return is_regular_; }
  bool IsSimple() const;
  bool IsBidirectional() const;

  Digraph Transpose() const;
  // Returns the hops from every node to `target`; kUnreachable if there is no path.
  static constexpr std::uint16_t kUnreachable = 0xFFFF;
  void DistancesTo(std::int32_t target, std::span<std::uint16_t> distances) const;

  bool operator==(const Digraph&) const = default;

 private:
  std::int32_t node_count_ = 0;
  std::int64_t degree_ = 0;
  bool has_self_loops_ = false;
  bool is_regular_ = true;
  std::vector<Arc> arcs_;
  std::vector<std::int32_t> into_{0};
};

// Symmetries of a network that commute and of which exactly one moves any node to any other (an
// abelian Cayley graph), so that one node stands for all. Node numbers have digits, each with a
// modulus, and a translation adds to each digit: rings, tori, circulants, Hamming networks and
// their products and degree expansions.
class Translations {
 public:
  // Finds digits for which all translations keep the arcs; none if there are none.
  // O(arcs x log of the degree) for each pair of divisors of the number of nodes, of which most are
  // refused at the first arc.
  static std::optional<Translations> Find(const Digraph& graph);

  // Returns where the translation that moves node 0 to `by` moves `node`.
  std::int32_t Move(std::int32_t node, std::int32_t by) const;
  // Returns the node that the translation by `by` moves to node 0.
  std::int32_t Negate(std::int32_t by) const;

 private:
  struct Digit {
    std::int32_t stride = 1;
    std::int32_t modulus = 2;
  };
  std::vector<Digit> digits_;
};

// Checks that every node reaches every other.
// Errors: kFailedPrecondition with two nodes that have no path.
Result<void> CheckConnected(const Digraph& graph);

// The digraph of a topology of COMPUTE nodes only: node i is the topology's node i, and capacities
// are in units of `unit`, the greatest common divisor of the bandwidths. Links that are not UP are
// left out.
// Errors: kInvalidArgument for a switch or a NIC, fewer than two nodes, more than kMaxNodes, or
// bandwidths without a common unit (an arc above kMaxCapacity units).
struct DirectNetwork {
  Digraph graph;
  BitsPerSecond unit;
};
Result<DirectNetwork> ReadNetwork(const fabric::Topology& topology);

// Returns the topology with nodes "n0", "n1", ... and a link of `rate` for each unit of capacity.
// Arcs in both directions become links in both directions. Self-loops are left out.
fabric::TopologySpec WriteNetwork(std::string name, const Digraph& graph, BitsPerSecond rate);

}  // namespace espalier::synthesis
