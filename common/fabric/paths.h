#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/fabric/shortest_paths.h"
#include "common/fabric/topology.h"

namespace espalier::fabric {

// The position of a path among those of its pair of attachment switches. It stays the same for the
// life of a PathTable, whatever the link states are.
using PathIndex = StrongId<struct PathIndexTag>;

// A path through the switches: every hop is a direction of a fabric link
// (Topology::IsFabricLink), from where the source is attached to where the destination is. The only
// uplink of a NIC is not part of it; of a NIC with several, the chosen one is.
struct Path {
  std::span<const DirectedLink> hops;  // in the PathTable
};

// Where the paths of a NIC begin and end: at the switch of its only uplink, or, if it has several
// uplinks, at the NIC itself, which chooses among them as a switch does.
struct Attachment {
  NodeId leaf;
  std::optional<DirectedLink> uplink;  // NIC -> switch; none if the NIC has several

  std::optional<DirectedLink> Downlink() const {
    if (!uplink) return std::nullopt;
    return DirectedLink{uplink->link, !uplink->forward};
  }
};

// Lists the candidate paths between NICs: all shortest ECMP paths (up, then down), over which
// switches that route by hop count spread traffic. Links count in every state: a dead link makes
// paths unusable (IsUsable) but does not change their numbers. The paths of a pair are ordered by
// the nodes that they pass in file order (so by spine), then by link, so the lowest index is the
// lowest spine.
//
// Tiers decide what is up and down: 0 for LEAF, 1 for SPINE, 2 for CORE. The tier of a switch
// without a role is its distance, in switch hops, from the nearest switch with NICs (0 if it
// reaches none). A path climbs, then may pass switches of equal tier, then descends. Paths that
// climb again (valleys) are excluded, as routing does not take them. NICs with several uplinks are
// below the leaves, where no path passes through them.
//
// Paths are computed on first use (ShortestPaths) and kept: 8 bytes for each hop and 16 for each
// path. At most kMaxPathsPerPair paths of a pair are listed. Thread safety: one thread, also for
// const calls, which fill the cache.
class PathTable {
 public:
  static constexpr std::size_t kMaxPathsPerPair = 65'536;

  // The topology must outlive this and keep its graph; link states may change.
  explicit PathTable(const Topology& topology);

  // None if the NIC has no link to a switch, or has several and its choice among them is kFixed.
  std::optional<Attachment> FindAttachment(NodeId nic) const;

  // Paths between two switches. Empty if there is none; one empty path if both are the same switch
  // (LOCAL: no port needed).
  std::span<const Path> Between(NodeId from_switch, NodeId to_switch) const;

  // The path of Between(to, from) that takes the same links in the opposite direction. None if a
  // link of the path is directed. O(paths), and O(1) where both directions list their paths alike,
  // as in a leaf-spine fabric.
  std::optional<PathIndex> Opposite(NodeId from_switch, NodeId to_switch, PathIndex path) const;

  // The tier of a switch, as above; -1 for a NIC with several uplinks.
  int Tier(NodeId switch_node) const { return levels_[switch_node.Index()] - lowest_level_; }
  // The tier counted from the lowest nodes of paths: from the NICs if some have several uplinks.
  int Level(NodeId node) const { return levels_[node.Index()]; }
  // The level of leaves: 1 if some NICs have several uplinks, else 0.
  int leaf_level() const { return lowest_level_; }

 private:
  struct Pair {
    std::vector<DirectedLink> hops;
    std::vector<Path> paths;
  };

  void FindAttachments();
  Pair Enumerate(NodeId from, NodeId to) const;
  void SortPaths(std::vector<Path>& paths) const;

  const Topology& topology_;
  std::vector<std::optional<Attachment>> attachments_;  // by node
  int lowest_level_ = 0;                                // of switches
  std::vector<int> levels_;                             // by node; -1 if no path passes it
  mutable ShortestPaths search_;
  struct HashPair {
    std::size_t operator()(const std::pair<NodeId, NodeId>& pair) const {
      const auto both = static_cast<std::uint64_t>(pair.first.value()) << 32U |
                        static_cast<std::uint32_t>(pair.second.value());
      return static_cast<std::size_t>(both * 0x9E37'79B9'7F4A'7C15 >> 20U);
    }
  };
  mutable std::unordered_map<std::pair<NodeId, NodeId>, Pair, HashPair> cache_;
};

// Why a node is attached to nothing, with its id: "h0 is not a NIC on exactly one switch, ...".
std::string WhyUnattached(const Topology& topology, NodeId node);
// True if all links of the path are UP. (DRAINED and DOWN links take no new flow.)
bool IsUsable(const Topology& topology, const Path& path);
// True if no link of the path is DOWN, so that it still carries packets.
bool IsAlive(const Topology& topology, const Path& path);
// The names of the switches between both ends: "spine3", or "agg1,core2,agg5" in a 3-tier fabric.
std::string ViaNames(const Topology& topology, const Path& path);

}  // namespace espalier::fabric
