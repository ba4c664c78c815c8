// What a lab runs to become what its layout says: settings, links, addresses, routes and limits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "deploy/lab/lab_layout.h"

namespace espalier::lab {
namespace {

constexpr int kFirstRailTable = 100;  // the routing table of a host's NIC 0
// The interface index of one end of a veth pair. Ends with equal indices would notice a carrier
// change up to 0.6 s late.
constexpr int kHighIndex = 1000;

}  // namespace

std::vector<Sysctl> LabLayout::Sysctls(const LabNode& node) const {
  std::vector<Sysctl> sysctls;
  const auto for_interfaces = [&](const std::string& family, const std::string& key,
                                  const std::string& value) {
    for (const char* scope : {"all", "default"}) {
      sysctls.push_back({fmt::format("net/{}/conf/{}/{}", family, scope, key), value});
    }
  };
  for_interfaces("ipv4", "rp_filter", "0");
  for_interfaces("ipv4", "ignore_routes_with_linkdown", "1");
  for_interfaces("ipv6", "disable_ipv6", options_.ipv6 ? "0" : "1");
  if (options_.ipv6) {
    for_interfaces("ipv6", "ignore_routes_with_linkdown", "1");
    for_interfaces("ipv6", "accept_dad", "0");
    for_interfaces("ipv6", "accept_ra", "0");
    for_interfaces("ipv6", "keep_addr_on_down", "1");
  }
  if (!options_.icmp_limits) {
    sysctls.push_back({"net/ipv4/icmp_ratemask", "0"});
    sysctls.push_back({"net/ipv6/icmp/ratelimit", "0"});
    sysctls.push_back({"net/ipv6/icmp/ratemask", "\n"});
  }
  if (node.role == Role::kHost) {
    // The ports by which flows are steered must not be assigned to other sockets.
    sysctls.push_back({"net/ipv4/ip_local_reserved_ports", "49152-65535"});
    sysctls.push_back({"net/ipv4/tcp_no_metrics_save", "1"});
    return sysctls;
  }
  sysctls.push_back({"net/ipv4/ip_forward", "1"});
  sysctls.push_back({"net/ipv4/icmp_errors_use_inbound_ifaddr", "1"});
  sysctls.push_back({"net/ipv4/fib_multipath_hash_policy", "3"});
  sysctls.push_back({"net/ipv4/fib_multipath_hash_fields", "51"});  // 0x33
  if (const auto seed = HashSeed(node)) {
    sysctls.push_back({"net/ipv4/fib_multipath_hash_seed", fmt::format("{}", *seed)});
  }
  if (options_.ipv6) {
    for_interfaces("ipv6", "forwarding", "1");
    sysctls.push_back({"net/ipv6/fib_multipath_hash_policy", "3"});
    sysctls.push_back({"net/ipv6/fib_multipath_hash_fields", "51"});
  }
  return sysctls;
}

std::string LabLayout::LinkScript() const {
  std::string script = "link set lo up\n";
  std::vector<int> uplinks(nodes_.size(), 0);
  for (const LabLink& link : links_) {
    const auto lower = static_cast<std::size_t>(link.lower.node);
    script += fmt::format("link add name {} index {} netns {} type veth peer name {} netns {}\n",
                          link.lower.interface, kHighIndex + uplinks[lower]++, nodes_[lower].name,
                          link.upper.interface, NodeAt(link.upper.node).name);
  }
  for (int h = 0; h < HostCount(); ++h) {
    script += fmt::format("link add name mgmt0 index {} netns h{} type veth peer name mgmt-h{}\n",
                          10 * kHighIndex, h, h);
    script += fmt::format("addr add {} peer {}/32 dev mgmt-h{}\nlink set mgmt-h{} up\n",
                          ControllerAddress(), ManagementAddress(h), h, h);
  }
  return script;
}

std::vector<LabLayout::Neighbour> LabLayout::NeighboursOf(const LabNode& node) const {
  const int position = PositionOf(node.role, node.index);
  std::vector<Neighbour> neighbours;
  for (const LabLink& link : links_) {
    if (link.lower.node == position) neighbours.push_back({&link.lower, &link.upper});
    if (link.upper.node == position) neighbours.push_back({&link.upper, &link.lower});
  }
  return neighbours;
}

std::string LabLayout::NodeScript(const LabNode& node) const {
  std::string script = "link set lo up\n";
  for (const Neighbour& neighbour : NeighboursOf(node)) {
    script +=
        fmt::format("addr add {}/{} dev {}\nlink set {} up\n", neighbour.own->address,
                    options_.ipv6 ? 127 : 31, neighbour.own->interface, neighbour.own->interface);
  }
  if (node.role == Role::kHost) {
    script += fmt::format("addr add {} peer {}/32 dev mgmt0\nlink set mgmt0 up\n",
                          ManagementAddress(node.index), ControllerAddress());
    for (int rail = 0; options_.rails > 1 && rail < options_.rails; ++rail) {
      script += fmt::format("rule add from {} lookup {}\n", NicAddress(NicOf(node.index, rail)),
                            kFirstRailTable + rail);
    }
    return script + HostRouteScript(node, {});
  }
  if (node.role == Role::kLeaf) {
    // Without it, packets to an address without a host would loop between leaf and spine.
    script += fmt::format("route replace blackhole {}\n", LeafPrefix(node.index));
  }
  return script + RouteScript(node, {});
}

// A NIC's own table, by which what has its address is sent, must not fall through to another NIC
// when its own is down: the answers would be lost. What has no address yet leaves by the NIC on the
// rail of its destination, else by the first that is up.
std::string LabLayout::HostRouteScript(const LabNode& node,
                                       const std::vector<std::string>& down) const {
  if (options_.rails == 1) {
    return fmt::format("route replace {} via {} dev eth0\n", options_.ipv6 ? "::/0" : "0.0.0.0/0",
                       LeafAddressOfNic(node.index));
  }
  std::string script;
  for (int rail = 0; rail < options_.rails; ++rail) {
    const int nic = NicOf(node.index, rail);
    const int table = kFirstRailTable + rail;
    const std::string interface = fmt::format("eth{}", rail);
    script += fmt::format("route replace unreachable default metric 9999 table {}\n", table);
    if (std::ranges::find(down, interface) != down.end()) continue;
    const std::string via = fmt::format("via {} dev {}", LeafAddressOfNic(nic), interface);
    script += fmt::format("route replace default {} table {}\n", via, table);
    script += fmt::format("route replace default {} metric {}\n", via, 1 + rail);
    for (int leaf = rail; leaf < options_.LeafCount(); leaf += options_.rails) {
      script += fmt::format("route replace {} {} src {}\n", LeafPrefix(leaf), via, NicAddress(nic));
    }
  }
  return script;
}

bool LabLayout::IsInPlaneOf(int leaf, const LabNode& node) const {
  if (options_.planes == 1) return true;
  return PlaneOfLeaf(leaf) ==
         (node.role == Role::kLeaf ? PlaneOfLeaf(node.index) : PlaneOfSpine(node.index));
}

bool LabLayout::IsBelow(int leaf, const LabNode& node) const {
  switch (node.role) {
    case Role::kHost:
      return false;
    case Role::kLeaf:
      return node.index == leaf;
    case Role::kSpine:
      return options_.pods == 0 || node.index / options_.spines == leaf / options_.leaves;
    case Role::kCore:
      return true;
  }
  return false;
}

std::vector<LabLayout::NextHop> LabLayout::NextHops(const LabNode& node, int leaf) const {
  std::vector<NextHop> hops;
  if (node.role == Role::kHost || !IsInPlaneOf(leaf, node)) return hops;
  const bool is_below = IsBelow(leaf, node);
  for (const Neighbour& neighbour : NeighboursOf(node)) {
    const LabNode& other = NodeAt(neighbour.other->node);
    const bool leads_there =
        is_below ? other.role < node.role && IsBelow(leaf, other) : other.role > node.role;
    if (leads_there) hops.push_back({neighbour.other->address, neighbour.own->interface});
  }
  return hops;
}

std::string LabLayout::RouteScript(const LabNode& node,
                                   const std::vector<std::string>& down) const {
  std::string script;
  if (options_.routing == Routing::kFrr) return script;
  for (int leaf = 0; leaf < options_.LeafCount(); ++leaf) {
    std::vector<std::string> hops;
    for (const NextHop& hop : NextHops(node, leaf)) {
      if (std::ranges::find(down, hop.interface) != down.end()) continue;
      hops.push_back(fmt::format("via {} dev {}", hop.address, hop.interface));
    }
    if (hops.empty()) continue;
    const char* const separator = hops.size() == 1 ? " " : " nexthop ";
    script += fmt::format("route replace {}{}{}\n", LeafPrefix(leaf), separator,
                          fmt::join(hops, separator));
  }
  return script;
}

std::string LabLayout::ShaperScript(const LabNode& node) const {
  std::string script;
  if (!options_.link_rate || node.role == Role::kHost) return script;
  for (const Neighbour& neighbour : NeighboursOf(node)) {
    if (NodeAt(neighbour.other->node).role == Role::kHost) continue;
    script += ShaperCommand(neighbour.own->interface, *options_.link_rate);
  }
  return script;
}

std::string ShaperCommand(const std::string& interface, BitsPerSecond rate) {
  return fmt::format("qdisc replace dev {} root tbf rate {}bit burst {} latency 50ms\n", interface,
                     rate.value, LabLayout::kShaperBurstBytes);
}

std::string LabLayout::CounterRules() {
  // One rule per address family counts packets to the RoCEv2 port, and to those after it, on which
  // the further ranks of a host listen, by protocol, addresses and source
  // port on arrival, before routing, and therefore also probes that end here.
  return R"(table inet ground_truth {
  set flows4 {
    type inet_proto . ipv4_addr . ipv4_addr . inet_service
    size 1048576; flags dynamic; counter
  }
  set flows6 {
    type inet_proto . ipv6_addr . ipv6_addr . inet_service
    size 1048576; flags dynamic; counter
  }
  chain arrive {
    type filter hook prerouting priority raw; policy accept;
    meta l4proto { tcp, udp } th dport 4791-4806 meta nfproto ipv4 update @flows4 { meta l4proto . ip saddr . ip daddr . th sport counter }
    meta l4proto { tcp, udp } th dport 4791-4806 meta nfproto ipv6 update @flows6 { meta l4proto . ip6 saddr . ip6 daddr . th sport counter }
  }
}
)";
}

}  // namespace espalier::lab
