#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collective/forest/model/problem.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// The routes between ranks that switches really use. Within a host, any connection there counts.
// Otherwise a route goes from the sender to its only NIC, over one of the paths that ECMP spreads
// over (fabric::PathTable), and from the receiver's NIC to the receiver. A path that has lost a
// link, or has no capacity left, is excluded.
//
// A rank's NIC is the nearest one of its host that has a link to the fabric; among several, the one
// that fewest earlier ranks use.
//
// A route has three segments, which several routes share: `out` of the sender, one of `middle`, and
// `in` of the receiver. Hops are arcs of the problem. Thread safety: one thread, as routes are
// computed on first use.
class EcmpRoutes {
 public:
  // reversed: the problem is a transposed one, so data travels against its arcs. All three
  // arguments must outlive this object unchanged.
  EcmpRoutes(const fabric::Topology& topology, const Problem& problem, bool reversed);

  using Hops = std::vector<std::int32_t>;
  struct RouteSegments {
    const Hops* out = nullptr;  // null: there is no route
    const Hops* in = nullptr;
    std::span<const Hops> middle;  // one empty segment if nothing lies between

    bool exist() const { return out != nullptr; }
  };
  RouteSegments Between(Rank from, Rank to);

 private:
  struct Access {
    fabric::NodeId leaf;
    fabric::NodeId nic;
    Hops out;  // rank to leaf
    Hops in;
  };
  // The arcs within a host by which a node is reached from a rank, and reaches it.
  struct Inside {
    std::int32_t node = 0;
    Hops out;
    Hops in;
  };

  std::vector<Inside> ExploreHost(Rank rank) const;
  std::optional<Access> FindAccess(Rank rank);
  std::span<const Hops> Middle(fabric::NodeId from_leaf, fabric::NodeId to_leaf);
  Hops HopsOf(const fabric::Path& path) const;
  std::int32_t NodeOf(fabric::NodeId id) const { return node_[id.Index()]; }
  const fabric::Node& TopologyNode(std::int32_t node) const {
    return topology_.node(problem_.topology_node[static_cast<std::size_t>(node)]);
  }

  const fabric::Topology& topology_;
  const Problem& problem_;
  bool reversed_;
  fabric::PathTable paths_;
  std::vector<std::int32_t> node_;                // by topology node: the problem's node; -1: none
  std::vector<std::int32_t> first_arc_;           // by tail
  std::vector<std::optional<Access>> access_;     // by rank
  std::vector<int> users_;                        // by topology node: how many ranks use the NIC
  std::map<std::pair<Rank, Rank>, Hops> inside_;  // routes within hosts
  std::map<std::pair<fabric::NodeId, fabric::NodeId>, std::vector<Hops>> middles_;
  const Hops none_;
  const std::vector<Hops> nothing_between_{{}};
};

}  // namespace espalier::forest
