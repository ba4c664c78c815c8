#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/paths.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// A two-tier fabric whose paths are more than its spines: every leaf is joined to every spine by
// the same number of parallel links (its members), or NICs choose among several leaves, or both.
//
// Leaves form groups. All NICs of a group are joined to all of its leaves, by `uplinks` links each.
// Where NICs have one uplink, an end is a leaf itself, alone in its group. A path between two
// groups is a leaf of the source's group, a spine, a leaf of the destination's group, and a member
// of each bundle that it takes; these are independent choices. Within a group it is a leaf and the
// members. All links are undirected, so the opposite direction of a directed link is its index with
// the lowest bit inverted. It does not change with link states.
struct BundledClos {
  struct Group {
    std::vector<std::uint32_t> ends;     // as FabricView numbers leaves
    std::vector<fabric::NodeId> leaves;  // in file order
    std::uint32_t first_leaf = 0;        // of all leaves, group by group
  };

  bool has_uplinks = false;   // ends are NICs that choose among leaves
  std::uint32_t uplinks = 1;  // parallel links of a NIC and each of its leaves
  std::uint32_t members = 1;  // parallel links of a leaf and a spine
  std::uint32_t spines = 0;
  std::uint32_t leaves = 0;
  std::vector<Group> groups;
  std::vector<std::uint32_t> group_of;      // by end
  std::vector<std::uint32_t> place_of;      // by end: its place in its group
  std::vector<std::uint32_t> first_uplink;  // by end, in end_links
  // DirectedLink::Index upwards, by leaf of the group and member, end by end; none without uplinks.
  std::vector<std::uint32_t> end_links;
  std::vector<std::uint32_t> leaf_links;  // the same by leaf, spine and member

  // The members of the bundle from an end to a leaf of its group, or from a leaf to a spine.
  std::span<const std::uint32_t> UplinksOf(std::uint32_t end, std::uint32_t leaf) const {
    return std::span(end_links).subspan(first_uplink[end] + leaf * uplinks, uplinks);
  }
  std::span<const std::uint32_t> MembersOf(std::uint32_t leaf, std::uint32_t spine) const {
    return std::span(leaf_links).subspan((std::size_t{leaf} * spines + spine) * members, members);
  }

  // The choices of a path. Leaves are numbered within their groups.
  struct Choices {
    std::uint32_t out_leaf = 0;
    std::uint32_t out_member = 0;  // of the source's uplinks
    std::uint32_t spine = 0;       // these three only between groups
    std::uint32_t up_member = 0;
    std::uint32_t down_member = 0;
    std::uint32_t in_leaf = 0;  // within a group: out_leaf
    std::uint32_t in_member = 0;
  };
  // The index among PathTable::Between.
  std::int32_t PathOf(std::uint32_t from, std::uint32_t to, const Choices& choices) const;
};

// Recognises such a fabric in O(links), whatever the states of the links. `ends`: where NICs are
// attached, in file order. None if a link is directed or joins other tiers, if groups overlap, if
// bundles differ in number, or if two ends have more than PathTable::kMaxPathsPerPair paths.
std::optional<BundledClos> FindBundledClos(const fabric::Topology& topology,
                                           const fabric::PathTable& paths,
                                           std::span<const fabric::NodeId> ends);

// For operators, such as "two-tier Clos: 4 leaves and 2 spines, joined by 2 parallel links each".
std::string DescribeBundles(const BundledClos& clos);

}  // namespace espalier::controller
