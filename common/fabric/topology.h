#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/strong_id.h"
#include "common/base/units.h"

namespace espalier::fabric {

using NodeId = StrongId<struct NodeTag>;  // dense, in the order of the file
using LinkId = StrongId<struct LinkTag>;  // dense, in the order of the file

// A COMPUTE takes part in collectives. A NIC is an endpoint of flows. A COMPUTE that is linked
// directly to a switch outside its host is its own NIC (docs/formats.md).
enum class NodeKind { kCompute, kNic, kSwitch };
enum class SwitchRole { kNone, kLeaf, kSpine, kCore };
enum class LinkState { kUp, kDown, kDrained };
// What chooses the first link of a packet, at a NIC with links to several switches (a bond, or
// routes with several next hops): a hash of the packet's addresses and ports; the queue pair's port
// affinity; nothing that a source port or a program could change; or it is not known.
enum class UplinkChoice { kUnknown, kHash, kAffinity, kFixed };

// The names used in files and on the command line: "UP", "DRAINED", "COMPUTE", "LEAF", "hash", ...
std::string_view NodeKindName(NodeKind kind);
std::string_view SwitchRoleName(SwitchRole role);
std::string_view LinkStateName(LinkState state);
std::string_view UplinkChoiceName(UplinkChoice choice);

// How a switch, or a NIC with several uplinks, hashes flows onto equal next hops, if the operator
// knows it. `hash` is a name of the catalogue in common/fabric/ecmp/ecmp_hash.h.
struct EcmpSpec {
  std::string hash;
  std::uint64_t seed = 0;
  bool operator==(const EcmpSpec&) const = default;
};

// How many times a link counts among the equal next hops of one of its ends.
struct NextHopWeight {
  std::string link;  // id
  int weight = 1;    // 1 to kMaxWeight
  bool operator==(const NextHopWeight&) const = default;
};
inline constexpr int kMaxWeight = 256;

struct Node {
  std::string id;
  NodeKind kind = NodeKind::kCompute;
  SwitchRole role = SwitchRole::kNone;
  std::string host;  // name of the agent that owns the node; empty for fabric switches
  bool multicast = false;
  bool reduce = false;
  std::vector<IpAddress> addresses;
  std::string device;
  std::optional<int> gid_index;
  // Of a switch, or ("uplink_hash" in files) of a NIC whose uplink is chosen by a hash.
  std::optional<EcmpSpec> ecmp;
  UplinkChoice uplink = UplinkChoice::kUnknown;
  std::vector<NextHopWeight> weights;  // of next hops; those of others are 1
  bool operator==(const Node&) const = default;
};
// The name of the agent that serves a node: its host, or the node's own id if it has none.
inline const std::string& HostOf(const Node& node) {
  return node.host.empty() ? node.id : node.host;
}

struct Link {
  std::string id;  // default: "a--b", and "a--b#2" for the second parallel link
  NodeId a;
  NodeId b;
  BitsPerSecond rate;     // in each direction
  bool directed = false;  // only a -> b
  LinkState state = LinkState::kUp;
  // Physical links of a LAG, among which the switch at either end hashes flows by itself: they have
  // one address, so that no probe tells them apart. The rate is that of all together.
  int members = 1;
  IpAddress a_address;  // none if unknown
  IpAddress b_address;
  std::string a_port;
  std::string b_port;
  bool operator==(const Link&) const = default;
};

// One direction of a link: a hop of a path, or the key of a load.
struct DirectedLink {
  LinkId link;
  bool forward = true;  // a -> b

  // Dense index of the direction: 2 * link + (forward ? 0 : 1).
  std::size_t Index() const { return 2 * link.Index() + (forward ? 0 : 1); }
  static DirectedLink FromIndex(std::size_t index) {
    return {LinkId(static_cast<std::int32_t>(index / 2)), index % 2 == 0};
  }
  bool operator==(const DirectedLink&) const = default;
};

// Nodes and links before they are checked, as builders and the file reader produce them.
struct TopologySpec {
  std::string name;
  std::int64_t version = 1;
  std::vector<Node> nodes;
  std::vector<Link> links;  // an empty id stands for the default
};

// The fabric as the controller knows it. The graph is fixed. Link states change, and every
// change raises the version by one. Topology is a value: copies are snapshots.
//
// Invariants: ids are unique; no self-loops; every rate is positive; every address belongs to
// one interface (the link end that carries a NIC's address may repeat it).
// Thread safety: const calls from any thread; only the owner calls SetLinkState.
class Topology {
 public:
  // An error, and the part of a TopologySpec that it is about: a file reader names the line.
  struct SpecError {
    enum class Part { kTopology, kNode, kLink } part = Part::kTopology;
    std::size_t index = 0;   // into spec.nodes or spec.links
    std::string_view field;  // name in files: "id", "addresses", "b"; empty for the whole part
    Error error;
  };
  // Errors: duplicate or malformed ids, links to unknown nodes, self-loops, rates that are not
  // positive, addresses used twice, a role or hash on a node that is not a switch.
  // Unreachable nodes and unbalanced switches are accepted.
  static tl::expected<Topology, SpecError> Build(TopologySpec spec);

  const std::string& name() const { return name_; }
  std::int64_t version() const { return version_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Link> links() const { return links_; }
  const Node& node(NodeId id) const { return nodes_[id.Index()]; }
  const Link& link(LinkId id) const { return links_[id.Index()]; }

  std::optional<NodeId> FindNode(std::string_view id) const;
  std::optional<LinkId> FindLink(std::string_view id) const;
  // The NIC (or COMPUTE that is its own NIC) that has this address, itself or on a link end.
  std::optional<NodeId> FindNic(const IpAddress& address) const;
  // The interface with this address, as a probe answer names it: the node, and the link if the
  // address belongs to the end of a link.
  struct Interface {
    NodeId node;
    std::optional<LinkId> link;
  };
  std::optional<Interface> FindInterface(const IpAddress& address) const;

  // Directions that leave a node, in the order of the links.
  std::span<const DirectedLink> Outgoing(NodeId node) const;
  NodeId From(DirectedLink direction) const;
  NodeId To(DirectedLink direction) const;
  // The name of a direction, by its link and the node that it leads to: "l17>leaf0".
  std::string DirectionName(DirectedLink direction) const;
  bool IsSwitchToSwitch(LinkId link) const;
  // True for a NIC, and for a COMPUTE that is linked directly to a switch outside its host.
  bool IsFlowEndpoint(NodeId node) const;
  // True for a link to a switch that is not part of the node's own host.
  bool LeavesHost(DirectedLink direction) const;
  // True for a flow endpoint that has several links out of its host, unless its choice is kFixed.
  // Its uplinks are then the first and last hops of its paths (PathTable).
  bool HasSeveralUplinks(NodeId node) const { return has_several_uplinks_[node.Index()]; }
  // True for a link between switches, and for an uplink of a NIC that has several. Paths consist of
  // these links.
  bool IsFabricLink(LinkId link) const;
  // How many times a next hop counts at the node that it leaves.
  int WeightOf(DirectedLink direction) const {
    return weights_.empty() ? 1 : weights_[direction.Index()];
  }

  // The spec from which Build makes this topology, with its current link states.
  TopologySpec Spec() const { return {name_, version_, nodes_, links_}; }

  // Sets the state. Returns true, and increments version(), if the state changed.
  bool SetLinkState(LinkId link, LinkState state);

 private:
  Topology() = default;

  void IndexOutgoing();
  void FindUplinks();
  // The steps of Build that can fail; each fills the indices that it checks.
  std::optional<SpecError> IndexNodes();
  std::optional<SpecError> IndexLinks();
  std::optional<SpecError> IndexWeights();
  std::optional<SpecError> IndexAddresses();

  std::string name_;
  std::int64_t version_ = 1;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<std::int32_t> outgoing_begin_;  // CSR over outgoing_
  std::vector<DirectedLink> outgoing_;
  std::vector<bool> has_several_uplinks_;  // by node
  std::vector<int> weights_;               // by DirectedLink::Index; empty: all are 1
  std::unordered_map<std::string, NodeId> node_by_id_;
  std::unordered_map<std::string, LinkId> link_by_id_;
  std::unordered_map<IpAddress, NodeId> nic_by_address_;
  std::unordered_map<IpAddress, Interface> interface_by_address_;
};

}  // namespace espalier::fabric
