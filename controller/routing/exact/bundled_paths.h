#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/edge_coloring.h"
#include "controller/routing/fabric/live_bundles.h"
#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// Computes the assignment of least maximum load on a BundledClos: parallel links between leaves and
// spines, and NICs that choose among the leaves of their group.
//
// Idea: three equitable colourings (graph::EdgeColoring), each of which divides what the one before
// left together. (1) Groups are nodes, subflows that leave their group edges, spines colours: a
// group has at most ceil(D / S) of its D subflows on a spine. (2) For each group, a bipartite graph
// has on the left its NICs, as senders, and the spines, as origins; on the right its NICs, as
// receivers, and the spines. A subflow within the group joins two NICs, one that leaves its NIC and
// its spine, one that arrives its spine and its NIC. The colours are the leaves. A NIC then has
// ceil(d / L) of its d subflows on a leaf, and a leaf and a spine have ceil(ceil(D / S) / L) =
// ceil(D / SL) in each direction. (3) Members of bundles are taken in turn. Each maximum is the
// least for its links alone, so no assignment has less on any of them, whatever the flows and the
// rates are. A path may leave by one leaf of its group and arrive by another; where that is not
// possible (two planes), the fabric is a FoldedClos of three tiers.
//
// It applies if FindLiveBundles does and all commodities have equally many subflows. It is a
// workspace. O(subflows + links) besides the colourings. Thread safety: one thread.
class BundledPaths {
 public:
  explicit BundledPaths(const FabricView& view) : view_(view) {}

  // Fills assignment.paths, max_load, lower_bound (equal to max_load) and proof; `first` must be
  // set. False, without any change, if it does not apply.
  bool Assign(std::span<const Commodity> commodities, Assignment& assignment);

 private:
  // A subflow that has a path.
  struct Routed {
    std::uint32_t source = 0;
    std::uint32_t destination = 0;
    std::size_t entry = 0;  // in Assignment::paths
    BundledClos::Choices choices;
  };
  struct Degrees {
    std::int64_t sent = 0;
    std::int64_t received = 0;
  };

  void ListRouted(std::span<const Commodity> commodities, const Assignment& assignment);
  bool IsRoutable(std::uint32_t source, std::uint32_t destination) const;
  bool IsWithin(const Routed& subflow) const;
  void ChooseSpines();
  // Of the subflows that send from, or arrive in, a group.
  void ChooseLeaves(std::uint32_t group, std::span<const std::uint32_t> sending,
                    std::span<const std::uint32_t> arriving);
  void ChooseAllLeaves();
  void ChooseMembers();
  // The usable member that carries least, and counts the subflow on it.
  std::uint32_t TakeMember(std::span<const std::uint32_t> links, bool is_upwards);
  Load MaxLoad(std::int64_t share) const;
  Load LowerBound(std::int64_t share) const;

  const FabricView& view_;
  graph::EdgeColoring coloring_;
  LiveBundles live_;
  std::vector<Routed> routed_;
  std::vector<graph::BipartiteEdge> edges_;
  std::vector<std::uint32_t> place_of_spine_;  // in live_.spines
  std::vector<std::int64_t> counts_;           // subflows by directed link
};

}  // namespace espalier::controller
