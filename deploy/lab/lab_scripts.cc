#include "deploy/lab/lab_scripts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace espalier::lab {
namespace {

constexpr int kFirstRailTable = 100;  // the routing table of a host's NIC 0
// The interface index of one end of a veth pair. Ends with equal indices would notice a carrier
// change up to 0.6 s late.
constexpr int kHighIndex = 1000;

// A route over these next hops ("via A dev I"), or none if there are none.
std::string RouteOver(const std::string& route, const std::vector<std::string>& hops) {
  if (hops.empty()) return "";
  const char* const separator = hops.size() == 1 ? " " : " nexthop ";
  return fmt::format("route replace {}{}{}\n", route, separator, fmt::join(hops, separator));
}

}  // namespace

std::vector<Sysctl> SysctlsOf(const LabLayout& layout, const LabNode& node) {
  const LabOptions& options = layout.options();
  std::vector<Sysctl> sysctls;
  const auto for_interfaces = [&](const std::string& family, const std::string& key,
                                  const std::string& value) {
    for (const char* scope : {"all", "default"}) {
      sysctls.push_back({fmt::format("net/{}/conf/{}/{}", family, scope, key), value});
    }
  };
  for_interfaces("ipv4", "rp_filter", "0");
  for_interfaces("ipv4", "ignore_routes_with_linkdown", "1");
  for_interfaces("ipv6", "disable_ipv6", options.ipv6 ? "0" : "1");
  if (options.ipv6) {
    for_interfaces("ipv6", "ignore_routes_with_linkdown", "1");
    for_interfaces("ipv6", "accept_dad", "0");
    for_interfaces("ipv6", "accept_ra", "0");
    for_interfaces("ipv6", "keep_addr_on_down", "1");
  }
  if (!options.icmp_limits) {
    sysctls.push_back({"net/ipv4/icmp_ratemask", "0"});
    sysctls.push_back({"net/ipv6/icmp/ratelimit", "0"});
    sysctls.push_back({"net/ipv6/icmp/ratemask", "\n"});
  }
  if (node.role == Role::kHost) {
    // The ports by which flows are steered must not be assigned to other sockets.
    sysctls.push_back({"net/ipv4/ip_local_reserved_ports", "49152-65535"});
    sysctls.push_back({"net/ipv4/tcp_no_metrics_save", "1"});
    if (const auto seed = layout.HashSeed(node)) {
      sysctls.push_back({"net/ipv4/fib_multipath_hash_policy", "1"});
      sysctls.push_back({"net/ipv4/fib_multipath_hash_seed", fmt::format("{}", *seed)});
    }
    return sysctls;
  }
  sysctls.push_back({"net/ipv4/ip_forward", "1"});
  sysctls.push_back({"net/ipv4/icmp_errors_use_inbound_ifaddr", "1"});
  sysctls.push_back({"net/ipv4/fib_multipath_hash_policy", "3"});
  sysctls.push_back({"net/ipv4/fib_multipath_hash_fields", "51"});  // 0x33
  if (const auto seed = layout.HashSeed(node)) {
    sysctls.push_back({"net/ipv4/fib_multipath_hash_seed", fmt::format("{}", *seed)});
  }
  if (options.ipv6) {
    for_interfaces("ipv6", "forwarding", "1");
    sysctls.push_back({"net/ipv6/fib_multipath_hash_policy", "3"});
    sysctls.push_back({"net/ipv6/fib_multipath_hash_fields", "51"});
  }
  return sysctls;
}

std::string LinkScript(const LabLayout& layout) {
  std::string script = "link set lo up\n";
  std::vector<int> uplinks(layout.nodes().size(), 0);
  for (const LabLink& link : layout.links()) {
    const auto lower = static_cast<std::size_t>(link.lower.node);
    script +=
        fmt::format("link add name {} index {} netns {} type veth peer name {} netns {}\n",
                    link.lower.interface, kHighIndex + uplinks[lower]++, layout.nodes()[lower].name,
                    link.upper.interface, layout.NodeAt(link.upper.node).name);
  }
  for (int h = 0; h < layout.HostCount(); ++h) {
    script += fmt::format("link add name mgmt0 index {} netns h{} type veth peer name mgmt-h{}\n",
                          10 * kHighIndex, h, h);
    script += fmt::format("addr add {} peer {}/32 dev mgmt-h{}\nlink set mgmt-h{} up\n",
                          LabLayout::ControllerAddress(), layout.ManagementAddress(h), h, h);
  }
  return script;
}

std::string NodeScript(const LabLayout& layout, const LabNode& node) {
  const LabOptions& options = layout.options();
  std::string script = "link set lo up\n";
  for (const LabLayout::Neighbour& neighbour : layout.NeighboursOf(node)) {
    script +=
        fmt::format("addr add {}/{} dev {}\nlink set {} up\n", neighbour.own->address,
                    options.ipv6 ? 127 : 31, neighbour.own->interface, neighbour.own->interface);
  }
  if (node.role == Role::kHost) {
    script += fmt::format("addr add {} peer {}/32 dev mgmt0\nlink set mgmt0 up\n",
                          layout.ManagementAddress(node.index), LabLayout::ControllerAddress());
    if (options.uplinks > 1) {
      script += fmt::format("addr add {}/32 dev lo\n", layout.NicAddress(node.index));
    }
    for (int rail = 0; options.rails > 1 && rail < options.rails; ++rail) {
      script +=
          fmt::format("rule add from {} lookup {}\n",
                      layout.NicAddress(layout.NicOf(node.index, rail)), kFirstRailTable + rail);
    }
    return script + HostRouteScript(layout, node, {});
  }
  if (node.role == Role::kLeaf) {
    // Without it, packets to an address without a host would loop between leaf and spine.
    const int first = node.index / options.uplinks * options.uplinks;
    script += fmt::format("route replace blackhole {}\n", layout.LeafPrefix(first));
  }
  return script + RouteScript(layout, node, {});
}

// A NIC's own table, by which what has its address is sent, must not fall through to another NIC
// when its own is down: the answers would be lost. What has no address yet leaves by the NIC on the
// rail of its destination, else by the first that is up.
std::string HostRouteScript(const LabLayout& layout, const LabNode& node,
                            const std::vector<std::string>& down) {
  const LabOptions& options = layout.options();
  if (options.uplinks > 1) {
    std::vector<std::string> hops;
    for (int uplink = 0; uplink < options.uplinks; ++uplink) {
      const std::string interface = fmt::format("eth{}", uplink);
      if (std::ranges::find(down, interface) != down.end()) continue;
      hops.push_back(
          fmt::format("via {} dev {}", layout.LeafAddressOfNic(node.index, uplink), interface));
    }
    return RouteOver(fmt::format("0.0.0.0/0 src {}", layout.NicAddress(node.index)), hops);
  }
  if (options.rails == 1) {
    return fmt::format("route replace {} via {} dev eth0\n", options.ipv6 ? "::/0" : "0.0.0.0/0",
                       layout.LeafAddressOfNic(node.index));
  }
  std::string script;
  for (int rail = 0; rail < options.rails; ++rail) {
    const int nic = layout.NicOf(node.index, rail);
    const int table = kFirstRailTable + rail;
    const std::string interface = fmt::format("eth{}", rail);
    script += fmt::format("route replace unreachable default metric 9999 table {}\n", table);
    if (std::ranges::find(down, interface) != down.end()) continue;
    const std::string via = fmt::format("via {} dev {}", layout.LeafAddressOfNic(nic), interface);
    script += fmt::format("route replace default {} table {}\n", via, table);
    script += fmt::format("route replace default {} metric {}\n", via, 1 + rail);
    for (int leaf = rail; leaf < options.LeafCount(); leaf += options.rails) {
      script += fmt::format("route replace {} {} src {}\n", layout.LeafPrefix(leaf), via,
                            layout.NicAddress(nic));
    }
  }
  return script;
}

std::string RouteScript(const LabLayout& layout, const LabNode& node,
                        const std::vector<std::string>& down) {
  const LabOptions& options = layout.options();
  std::string script;
  if (options.routing == Routing::kFrr) return script;
  for (int leaf = 0; leaf < options.LeafCount(); leaf += options.uplinks) {
    std::vector<std::string> hops;
    for (const LabLayout::NextHop& hop : layout.NextHops(node, leaf)) {
      if (std::ranges::find(down, hop.interface) != down.end()) continue;
      hops.push_back(fmt::format("via {} dev {}", hop.address, hop.interface));
    }
    script += RouteOver(layout.LeafPrefix(leaf), hops);
  }
  for (const auto& [route, port] : layout.HostRoutes(node)) {
    if (std::ranges::find(down, port->interface) != down.end()) continue;
    script += fmt::format("route replace {} dev {}\n", route, port->interface);
  }
  return script;
}

std::string ShaperScript(const LabLayout& layout, const LabNode& node) {
  const LabOptions& options = layout.options();
  std::string script;
  const bool limits_hosts = options.uplinks > 1;
  if (!options.link_rate || (node.role == Role::kHost && !limits_hosts)) return script;
  for (const LabLayout::Neighbour& neighbour : layout.NeighboursOf(node)) {
    if (layout.NodeAt(neighbour.other->node).role == Role::kHost && !limits_hosts) continue;
    script += ShaperCommand(neighbour.own->interface, *options.link_rate);
  }
  return script;
}

std::string ShaperCommand(const std::string& interface, BitsPerSecond rate) {
  return fmt::format("qdisc replace dev {} root tbf rate {}bit burst {} latency 50ms\n", interface,
                     rate.value, LabLayout::kShaperBurstBytes);
}

std::string CounterRules() {
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
