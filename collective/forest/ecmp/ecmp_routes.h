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

// The ways between ranks that switches really take: within a host whatever joins the two there;
// else from a rank to its one NIC, over one of the paths that ECMP spreads over
// (fabric::PathTable), and from the other's NIC to it. A path that has lost a link, or has nothing
// left, is none.
//
// A rank's NIC is the nearest one of its host that has a link to the fabric; of several the one
// that fewest ranks before it use.
//
// A way is three parts, as the parts are shared: `out` of the sender, one of `middle`, `in` of the
// receiver; hops are arcs of the problem. Thread safety: one thread (ways are found on first use).
class EcmpRoutes {
 public:
  // reversed: the problem is a transposed one, whose data goes against its arcs.
  // All three must stay alive and unchanged.
  EcmpRoutes(const fabric::Topology& topology, const Problem& problem, bool reversed);

  using Hops = std::vector<std::int32_t>;
  struct RouteSegments {
    const Hops* out = nullptr;  // null: there is no way
    const Hops* in = nullptr;
    std::span<const Hops> middle;  // one, and empty, where nothing is between

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
  // Of a node: the arcs by which it is reached from a rank, and reaches it, within a host.
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
  std::vector<std::int32_t> node_;                // of the problem, by topology node; -1 for none
  std::vector<std::int32_t> first_arc_;           // by tail
  std::vector<std::optional<Access>> access_;     // by rank
  std::vector<int> users_;                        // of NICs, by topology node
  std::map<std::pair<Rank, Rank>, Hops> inside_;  // ways within hosts
  std::map<std::pair<fabric::NodeId, fabric::NodeId>, std::vector<Hops>> middles_;
  const Hops none_;
  const std::vector<Hops> nothing_between_{{}};
};

}  // namespace espalier::forest
