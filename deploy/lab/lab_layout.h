#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::lab {

// Which switches share a seed of the ECMP hash.
enum class HashSeeds {
  kDistinct,  // none
  kTier,      // those of a tier
  kEqual,     // all: the choices of the tiers are polarised, and some paths have no port
};

// What decides the routes of the switches.
enum class Routing {
  kStatic,  // the lab writes them
  kFrr,     // FRR's daemons agree on them by BGP
};

// The options of `espalier lab up`.
struct LabOptions {
  std::string name = "lab";
  int spines = 4;          // with pods: the aggregation switches of each pod
  int leaves = 4;          // with pods: of each pod
  int hosts_per_leaf = 4;  // with rails: NICs of each leaf
  int rails = 1;           // NICs of each host, each on a leaf of its own
  int uplinks = 1;         // leaves to which each host is linked with one address
  int planes = 1;  // parts of two tiers, with several rails or uplinks, without links between them
  int gpus = 0;    // of a host of two tiers and several rails; 0: one for each NIC
  int pods = 0;    // 0: two tiers; else three
  int cores = 0;   // of three tiers, a multiple of `spines`
  std::optional<BitsPerSecond> link_rate;  // of links between switches, each way; none: no limit
  bool icmp_limits = false;                // keep the kernel's limits on ICMP errors
  std::uint64_t seed = 1;                  // of the switches' ECMP hashes
  HashSeeds hash_seeds = HashSeeds::kDistinct;
  Routing routing = Routing::kStatic;
  bool ipv6 = false;             // the fabric speaks IPv6 only (management stays IPv4)
  bool hash_hint = false;        // write the switches' hash and seed into the topology file
  bool die_with_caller = false;  // the lab ends with the process that started it

  int LeafCount() const { return leaves * (pods == 0 ? 1 : pods); }
  int SpineCount() const { return spines * (pods == 0 ? 1 : pods); }
  int GpusOfHost() const { return gpus == 0 ? rails : gpus; }
  // Ranks of a collective of all hosts: their GPUs, or the hosts with one NIC each.
  int RankCount() const { return LeafCount() * hosts_per_leaf / Lanes() * GpusOfHost(); }
  // Leaves of a group that shares its hosts.
  int Lanes() const { return std::max(rails, uplinks); }
};

// By tier from below. A spine of a lab with pods is an aggregation switch.
enum class Role { kHost, kLeaf, kSpine, kCore };

// One network namespace of the fabric.
struct LabNode {
  Role role = Role::kHost;
  int index = 0;  // position among all nodes of its role
  std::string name;
};

// One end of a link of the fabric.
struct LabPort {
  int node = 0;             // position in LabLayout::nodes
  std::string in_topology;  // the node's name there; differs for hosts with several NICs
  std::string interface;
  std::string address;
};

struct LabLink {
  LabPort lower;
  LabPort upper;  // in the next tier
};

// The layout of one lab, decided before anything is created: names, addresses and seeds. Pure;
// lab_scripts.h makes of it what a lab runs.
//
// NIC k of leaf l (both from 0) has 10.l.k.1/31, its leaf's end 10.l.k.0; uplink s of leaf l has
// 172.16.l.2s (leaf) and 172.16.l.(2s+1) (spine), and uplink c of aggregation switch g 172.17.g.2c
// and 172.17.g.(2c+1) (core). With IPv6: fd00:10:l:h::1 and ::0, fd00:172:l:s::0 and ::1,
// fd00:173:g:c::0 and ::1, numbers in hexadecimal, all /127. NICs are numbered by leaf and then by
// place. With one rail, host h is NIC h; else those of a host are at the same place of `rails`
// leaves (fabric::LeafSpineOptions), and what a host sends from the address of a NIC leaves there.
//
// With several uplinks, a group of that many leaves shares its hosts. The host at place k of a
// group that begins with leaf l has 10.l.k.1/32 on its loopback interface, and eth<u> leads to leaf
// l + u, as 10.(l+u).k.3/31 with 10.(l+u).k.2 at the leaf. The kernel of the host chooses among
// them by a hash with a seed of its own (fib_multipath_hash_policy 1), and a spine among the leaves
// of a group. Routes do not change when a link of a host fails: the spines still send to its leaf.
//
// Interfaces: "eth<r>" in a host, for NIC r; "h<k>" (k-th NIC of the leaf) and "s<k>" (to the k-th
// spine, of its pod) in a leaf; "l<k>" (to the k-th leaf, of its pod) and "c<k>" (to the k-th core
// of its plane) in a spine; "p<k>" (to pod k) in a core; "mgmt0" in a host and "mgmt-<host>" at the
// controller, 10.255.0.1 to 10.255.x.y.
class LabLayout {
 public:
  // Errors: kInvalidArgument for a name that is not a valid file name, counts outside 1..128 in a
  // tier, more than 4,096 nodes, cores that the planes cannot share, leaves that are no multiple of
  // the rails or uplinks, uplinks with rails, pods, IPv6 or FRR, rails or spines that are no
  // multiple of the planes, more than 16 rails, rails that are no multiple of the GPUs, GPUs and
  // pods, rails over IPv6, planes and pods, FRR and IPv6, or a rate below 1 Mbit/s.
  static Result<LabLayout> Make(LabOptions options);

  const LabOptions& options() const { return options_; }
  const std::vector<LabNode>& nodes() const { return nodes_; }
  const std::vector<LabLink>& links() const { return links_; }
  const LabNode& NodeAt(int position) const { return nodes_[static_cast<std::size_t>(position)]; }
  // The node of this name, or the host of the NIC or GPU of this name ("h0/nic1", "h0/gpu1").
  const LabNode* FindNode(const std::string& name) const;
  int NicCount() const { return options_.LeafCount() * options_.hosts_per_leaf / options_.uplinks; }
  int HostCount() const { return NicCount() / options_.rails; }

  int NicOf(int host, int rail) const;
  // A NIC's name in the topology: "h0", or "h0/nic1" with several rails.
  std::string NicName(int nic) const;
  std::string NicAddress(int nic) const;
  // The ranks of a collective of all hosts, by host and then by GPU: their names in the topology,
  // "h0", or "h0/gpu1" with several rails, and the addresses of their first NICs.
  std::string RankName(int rank) const;
  std::string RankAddress(int rank) const;
  // The network of all NICs of a leaf, to which the other switches have routes.
  std::string LeafPrefix(int leaf) const;
  // At the leaf of the NIC's only uplink, or of this one of several.
  std::string LeafAddressOfNic(int nic, int uplink = 0) const;
  // A route for each host of a leaf, where hosts have several uplinks; else none.
  std::vector<std::pair<std::string, const LabPort*>> HostRoutes(const LabNode& leaf) const;
  std::string ManagementAddress(int host) const;
  // What the queue of a rate-limited link lets pass at once after it was idle.
  static constexpr int kShaperBurstBytes = 128 * 1024;
  static std::string ControllerAddress() { return "10.255.0.1"; }
  // The hash seed of a switch that has several next hops to a leaf, or of a host with several
  // uplinks, 1..2^31-1; none for others.
  std::optional<std::uint32_t> HashSeed(const LabNode& node) const;

  // The fabric as a topology.
  Result<fabric::TopologySpec> MakeTopology() const;

  // A link as one of its nodes sees it.
  struct Neighbour {
    const LabPort* own;
    const LabPort* other;
  };
  std::vector<Neighbour> NeighboursOf(const LabNode& node) const;
  struct NextHop {
    std::string address;
    std::string interface;
  };
  // Where a switch sends what is for a leaf: the neighbours below through which a way descends to
  // it, else those above. None for its own hosts, and for what is out of its reach.
  std::vector<NextHop> NextHops(const LabNode& node, int leaf) const;

 private:
  explicit LabLayout(LabOptions options);

  int HostOf(int nic) const;
  int RailOf(int nic) const { return nic / options_.hosts_per_leaf % options_.rails; }
  // Of the NIC's only uplink, or of the first of several.
  int LeafOfNic(int nic) const { return nic / options_.hosts_per_leaf * options_.uplinks; }
  bool SpinesChoose() const {
    return options_.pods != 0 || (options_.uplinks > 1 && options_.planes < options_.uplinks);
  }
  int PlaneOfLeaf(int leaf) const;
  int PlaneOfSpine(int spine) const { return spine * options_.planes / options_.spines; }
  std::string FabricAddress(int network, int switch_index, int uplink, bool upper) const;
  int PositionOf(Role role, int index) const;
  // Whether any way leads from this switch to a leaf.
  bool IsInPlaneOf(int leaf, const LabNode& node) const;
  // Whether the way from this node to a leaf only descends.
  bool IsBelow(int leaf, const LabNode& node) const;
  void AddNodes();
  void AddLinks();
  void DrawSeeds();

  LabOptions options_;
  std::vector<LabNode> nodes_;        // cores, spines, leaves, hosts
  std::vector<LabLink> links_;        // from below
  std::vector<std::uint32_t> seeds_;  // of the leaves, then of the spines, then of the hosts
};

}  // namespace espalier::lab
