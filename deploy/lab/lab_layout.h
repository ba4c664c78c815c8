#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::lab {

// The options of `espalier lab up`.
struct LabOptions {
  std::string name = "lab";
  int spines = 4;
  int leaves = 4;
  int hosts_per_leaf = 4;
  std::optional<BitsPerSecond> link_rate;  // of leaf-spine links, in each direction; none: no limit
  bool icmp_limits = false;                // keep the kernel's limits on ICMP errors
  std::uint64_t seed = 1;                  // of the leaves' ECMP hashes
  bool ipv6 = false;                       // the fabric speaks IPv6 only (management stays IPv4)
  bool hash_hint = false;                  // write the leaves' hash and seed into the topology file
  bool die_with_caller = false;            // the lab ends with the process that started it
};

enum class Role { kHost, kLeaf, kSpine };

// One network namespace of the fabric.
struct LabNode {
  Role role = Role::kHost;
  int index = 0;  // position among all nodes of its role
  std::string name;
};

struct Sysctl {
  std::string key;  // "net/ipv4/ip_forward"
  std::string value;
};

// The layout of one lab, decided before anything is created: names, addresses, seeds and scripts.
// Pure; the scripts are input for `ip -batch`, `tc -batch` and `nft -f`.
//
// Host h of leaf l (both from 0) has 10.l.h.1/31, its leaf's end 10.l.h.0; uplink s of leaf l has
// 172.16.l.2s (leaf) and 172.16.l.(2s+1) (spine). With IPv6: fd00:10:l:h::1 and ::0,
// fd00:172:l:s::0 and ::1, numbers in hexadecimal, all /127. Interfaces: "eth0" in a host; "h<k>"
// (k-th host of the leaf) and "s<k>" (to spine k) in a leaf; "l<k>" (to leaf k) in a spine;
// "mgmt0" in a host and "mgmt-<host>" at the controller, 10.255.0.1 to 10.255.x.y.
class LabLayout {
 public:
  // Errors: kInvalidArgument for a name that is not a valid file name, counts outside 1..128, more
  // than 4,096 nodes, or a rate below 1 Mbit/s.
  static Result<LabLayout> Make(LabOptions options);

  const LabOptions& options() const { return options_; }
  const std::vector<LabNode>& nodes() const { return nodes_; }
  const LabNode* FindNode(const std::string& name) const;
  int HostCount() const { return options_.leaves * options_.hosts_per_leaf; }

  std::string HostAddress(int host) const;
  std::string LeafAddressOfHost(int host) const;
  std::string LeafUplinkAddress(int leaf, int spine) const;
  std::string SpineUplinkAddress(int leaf, int spine) const;
  std::string ManagementAddress(int host) const;
  // What the queue of a rate-limited link lets pass at once after it was idle.
  static constexpr int kShaperBurstBytes = 128 * 1024;
  static std::string ControllerAddress() { return "10.255.0.1"; }
  // The hash seed of a leaf, 1..2^31-1; distinct for every leaf of the lab.
  std::uint32_t HashSeed(int leaf) const { return seeds_[static_cast<std::size_t>(leaf)]; }

  // The fabric as a topology.
  Result<fabric::TopologySpec> MakeTopology() const;

  // The settings to write in a node's namespace before it has any link.
  std::vector<Sysctl> Sysctls(const LabNode& node) const;
  // Creates all links; runs in the controller's namespace. Node names are those of `ip netns`.
  std::string LinkScript() const;
  // Sets up the addresses, links and routes of one node.
  std::string NodeScript(const LabNode& node) const;
  // Sets the routes of a switch, without next hops over the interfaces in `down`.
  std::string RouteScript(const LabNode& node, const std::vector<std::string>& down) const;
  std::string HostRouteScript(const LabNode& node) const;
  // Sets the rate limits of one switch; empty if there are none.
  std::string ShaperScript(const LabNode& node) const;
  // The rules that count a spine's packets: the ground truth (docs/lab.md).
  static std::string CounterRules();

 private:
  explicit LabLayout(LabOptions options);

  std::string LeafPrefix(int leaf) const;
  std::string HostScript(const LabNode& node) const;
  std::string LeafScript(const LabNode& node) const;
  std::string SpineScript(const LabNode& node) const;
  void DrawSeeds();

  LabOptions options_;
  std::vector<LabNode> nodes_;
  std::vector<std::uint32_t> seeds_;
};

}  // namespace espalier::lab
