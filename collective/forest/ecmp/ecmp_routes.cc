#include "collective/forest/ecmp/ecmp_routes.h"

#include <algorithm>
#include <tuple>

namespace espalier::forest {

using fabric::DirectedLink;
using fabric::NodeId;

EcmpRoutes::EcmpRoutes(const fabric::Topology& topology, const Problem& problem, bool reversed)
    : topology_(topology),
      problem_(problem),
      reversed_(reversed),
      paths_(topology),
      node_(topology.nodes().size(), -1),
      first_arc_(static_cast<std::size_t>(problem.node_count) + 1, 0),
      users_(topology.nodes().size(), 0) {
  for (std::int32_t v = 0; v < problem.node_count; ++v) {
    node_[problem.topology_node[static_cast<std::size_t>(v)].Index()] = v;
  }
  for (const Arc& arc : problem.arcs) ++first_arc_[static_cast<std::size_t>(arc.tail) + 1];
  for (std::size_t v = 1; v < first_arc_.size(); ++v) first_arc_[v] += first_arc_[v - 1];
  for (std::int32_t r = 0; r < problem.rank_count; ++r) {
    access_.push_back(FindAccess(static_cast<Rank>(r)));
  }
}

// Searches breadth-first over the nodes of the rank's host that pass data both ways; ranks end the
// search.
std::vector<EcmpRoutes::Inside> EcmpRoutes::ExploreHost(Rank rank) const {
  std::vector<Inside> reached{{rank, {}, {}}};
  const std::string& host = TopologyNode(rank).host;
  if (host.empty()) return reached;
  std::vector<bool> seen(static_cast<std::size_t>(problem_.node_count), false);
  seen[rank] = true;
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const std::int32_t at = reached[next].node;
    if (problem_.IsRank(at) && at != rank) continue;
    const auto tail = static_cast<std::size_t>(at);
    for (std::int32_t a = first_arc_[tail]; a < first_arc_[tail + 1]; ++a) {
      const std::int32_t head = problem_.arcs[static_cast<std::size_t>(a)].head;
      const std::int32_t back = problem_.FindArc(head, at);
      if (back < 0 || seen[static_cast<std::size_t>(head)] || TopologyNode(head).host != host) {
        continue;
      }
      seen[static_cast<std::size_t>(head)] = true;
      Inside inside{head, reached[next].out, {back}};
      inside.out.push_back(a);
      inside.in.insert(inside.in.end(), reached[next].in.begin(), reached[next].in.end());
      reached.push_back(std::move(inside));
    }
  }
  return reached;
}

std::optional<EcmpRoutes::Access> EcmpRoutes::FindAccess(Rank rank) {
  std::optional<Access> best;
  std::tuple<bool, std::size_t, int> best_cost;
  for (Inside& inside : ExploreHost(rank)) {
    const NodeId id = problem_.topology_node[static_cast<std::size_t>(inside.node)];
    if (problem_.IsRank(inside.node) && inside.node != rank) {
      inside_[{rank, static_cast<Rank>(inside.node)}] = std::move(inside.out);
      continue;
    }
    if (!topology_.IsFlowEndpoint(id)) continue;
    const auto attachment = paths_.FindAttachment(id);
    if (!attachment) continue;
    // Of a NIC with several uplinks they are hops of its paths.
    const bool has_own_link = attachment->leaf != id;
    const std::int32_t leaf = NodeOf(attachment->leaf);
    const std::int32_t up = has_own_link ? problem_.FindArc(inside.node, leaf) : 0;
    const std::int32_t down = has_own_link ? problem_.FindArc(leaf, inside.node) : 0;
    if (up < 0 || down < 0) continue;
    const std::tuple cost(topology_.node(id).addresses.empty(), inside.out.size(),
                          users_[id.Index()]);
    if (best && best_cost <= cost) continue;
    if (has_own_link) {
      inside.out.push_back(up);
      inside.in.insert(inside.in.begin(), down);
    }
    best = Access{attachment->leaf, id, std::move(inside.out), std::move(inside.in)};
    best_cost = cost;
  }
  if (best) ++users_[best->nic.Index()];
  return best;
}

// Returns the hops in the direction of the problem's arcs; empty if the path has lost one.
EcmpRoutes::Hops EcmpRoutes::HopsOf(const fabric::Path& path) const {
  Hops hops;
  if (!fabric::IsUsable(topology_, path)) return hops;
  for (const DirectedLink hop : path.hops) {
    const std::int32_t from = NodeOf(topology_.From(hop));
    const std::int32_t to = NodeOf(topology_.To(hop));
    const std::int32_t arc = reversed_ ? problem_.FindArc(to, from) : problem_.FindArc(from, to);
    if (arc < 0) return {};
    hops.push_back(arc);
  }
  if (reversed_) std::reverse(hops.begin(), hops.end());
  return hops;
}

std::span<const EcmpRoutes::Hops> EcmpRoutes::Middle(NodeId from_leaf, NodeId to_leaf) {
  if (from_leaf == to_leaf) return nothing_between_;
  const auto [known, is_new] = middles_.try_emplace({from_leaf, to_leaf});
  std::vector<Hops>& all = known->second;
  if (!is_new) return all;
  const auto paths =
      reversed_ ? paths_.Between(to_leaf, from_leaf) : paths_.Between(from_leaf, to_leaf);
  for (const fabric::Path& path : paths) {
    Hops hops = HopsOf(path);
    // Parallel links are one arc, so the paths over them are one path.
    if (!hops.empty() && std::find(all.begin(), all.end(), hops) == all.end()) {
      all.push_back(std::move(hops));
    }
  }
  return all;
}

EcmpRoutes::RouteSegments EcmpRoutes::Between(Rank from, Rank to) {
  if (const auto inside = inside_.find({from, to}); inside != inside_.end()) {
    return {&inside->second, &none_, nothing_between_};
  }
  const auto& source = access_[from];
  const auto& destination = access_[to];
  if (!source || !destination || source->nic == destination->nic) return {};
  const auto middle = Middle(source->leaf, destination->leaf);
  if (middle.empty()) return {};
  return {&source->out, &destination->in, middle};
}

}  // namespace espalier::forest
