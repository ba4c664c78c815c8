#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::fabric {

// Position of a path among those of its pair of attachment switches. Stable for the life of a
// PathTable whatever the link states are, so that maps and plans can name paths by it.
using PathIndex = StrongId<struct PathIndexTag>;

// A way through the switches: every hop is a direction of a switch-to-switch link, from the
// source's switch to the destination's. The hosts' own links are not part of it.
struct Path {
  std::vector<DirectedLink> hops;
};

// Where a NIC is joined to the fabric.
struct Attachment {
  NodeId leaf;
  DirectedLink uplink;  // NIC -> switch
};

// All shortest ECMP paths (up, then down) between NICs: those a switch that routes by hop count
// would spread over, counting every link whatever its state; a dead link removes paths from use
// (IsUsable), not from the numbering. Paths of a pair are ordered by the nodes they pass in file
// order (so by spine), then by link: "ties to the lowest spine" is "lowest index".
//
// Up and down are told by tier: 0 for LEAF, 1 for SPINE, 2 for CORE; a switch without a role is
// as high as its distance, in switch hops, from the nearest switch that NICs hang on (or 0 if
// none is in reach). A path climbs, then may pass switches of equal tier, then descends; one that
// climbs again (a valley) is none that routing would take, however short it is.
//
// Computed on first use and kept. Complexity: once per pair of switches, O(switch links + paths x
// hops); 88 ms for all pairs of 64 leaves over 32 spines (BM_AllPathsOfBigFabric). At most
// kMaxPathsPerPair paths of a pair are listed. Thread safety: one thread, for const calls too (what
// is kept is not seen from outside).
class PathTable {
 public:
  static constexpr std::size_t kMaxPathsPerPair = 65'536;

  // The topology's graph must stay alive and unchanged; states may change.
  explicit PathTable(const Topology& topology);

  // The fabric switch that a NIC hangs on; none where it has no switch link or more than one
  // (each fabric port of a host is a NIC of its own).
  std::optional<Attachment> FindAttachment(NodeId nic) const;

  // Paths between two switches. Empty where there is none; one empty path where both are one
  // switch (LOCAL: no port needed).
  std::span<const Path> Between(NodeId from_switch, NodeId to_switch) const;

  // The tier of a switch, as above.
  int Tier(NodeId switch_node) const { return tiers_[switch_node.Index()]; }

 private:
  // What a hop does to the tier; along a path it never goes back.
  enum Phase : std::uint8_t { kUp, kLevel, kDown, kPhases };

  void FindAttachments();
  void ComputeTiers();
  void CollectHops();
  Phase PhaseOf(DirectedLink hop) const;
  const std::vector<std::int32_t>& DistancesTo(NodeId target) const;
  std::vector<Path> Enumerate(NodeId from, NodeId to) const;
  void SortPaths(std::vector<Path>& paths) const;

  const Topology& topology_;
  std::vector<std::optional<Attachment>> attachments_;  // by node
  std::vector<int> tiers_;                              // by node; -1 for what is no switch
  // Switch-to-switch hops by the node they leave, ordered by the node they enter and then by
  // link; and by the node they enter.
  std::vector<std::vector<DirectedLink>> hops_from_;
  std::vector<std::vector<DirectedLink>> hops_into_;
  // Hops to go to the last target asked for, by kPhases * node + phase of the hop that led to
  // the node; -1 where there is no way.
  mutable std::optional<NodeId> target_;
  mutable std::vector<std::int32_t> distances_;
  struct HashPair {
    std::size_t operator()(const std::pair<NodeId, NodeId>& pair) const {
      const auto both = static_cast<std::uint64_t>(pair.first.value()) << 32U |
                        static_cast<std::uint32_t>(pair.second.value());
      return static_cast<std::size_t>(both * 0x9E37'79B9'7F4A'7C15 >> 20U);
    }
  };
  mutable std::unordered_map<std::pair<NodeId, NodeId>, std::vector<Path>, HashPair> cache_;
};

// All its links are UP. (DRAINED and DOWN both take no new flow.)
bool IsUsable(const Topology& topology, const Path& path);
// None of its links is DOWN: a flow on it still lives.
bool IsAlive(const Topology& topology, const Path& path);
// The switches between the two ends: "spine3", or "agg1,core2,agg5" in a 3-tier fabric.
std::string ViaNames(const Topology& topology, const Path& path);

}  // namespace espalier::fabric
