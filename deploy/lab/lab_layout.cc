#include "deploy/lab/lab_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "common/fabric/builders.h"

namespace espalier::lab {
namespace {

constexpr int kMaxPerTier = 128;
constexpr int kMaxNodes = 4096;
constexpr BitsPerSecond kMinRate{1'000'000};
// The rate in the topology of links without a limit, which run as fast as the machine.
constexpr BitsPerSecond kNominalRate{10'000'000'000};
// The interface index of one end of a veth pair. Ends with equal indices would notice a carrier
// change up to 0.6 s late.
constexpr int kHighIndex = 1000;

bool IsFileName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

Result<LabLayout> LabLayout::Make(LabOptions options) {
  if (!IsFileName(options.name)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("lab name '{}' is invalid (use letters, digits, '-', '_' and '.')",
                            options.name));
  }
  const auto in_range = [](int count) { return count >= 1 && count <= kMaxPerTier; };
  if (!in_range(options.spines) || !in_range(options.leaves) || !in_range(options.hosts_per_leaf)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("lab of {} spines, {} leaves, {} hosts per leaf: each number must be 1 to {}",
                    options.spines, options.leaves, options.hosts_per_leaf, kMaxPerTier));
  }
  if (options.spines + options.leaves * (1 + options.hosts_per_leaf) > kMaxNodes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the lab would have more than {} nodes (use fewer hosts)", kMaxNodes));
  }
  if (options.link_rate && *options.link_rate < kMinRate) {
    return Fail(ErrorCode::kInvalidArgument, "the link rate is below 1 Mbit/s (use at least 1)");
  }
  return LabLayout(std::move(options));
}

LabLayout::LabLayout(LabOptions options) : options_(std::move(options)) {
  for (int s = 0; s < options_.spines; ++s) {
    nodes_.push_back({Role::kSpine, s, fmt::format("spine{}", s)});
  }
  for (int l = 0; l < options_.leaves; ++l) {
    nodes_.push_back({Role::kLeaf, l, fmt::format("leaf{}", l)});
  }
  for (int h = 0; h < HostCount(); ++h) nodes_.push_back({Role::kHost, h, fmt::format("h{}", h)});
  DrawSeeds();
}

void LabLayout::DrawSeeds() {
  std::mt19937_64 random(options_.seed);
  while (seeds_.size() < static_cast<std::size_t>(options_.leaves)) {
    const auto seed = static_cast<std::uint32_t>(random() >> 33);
    if (seed != 0 && std::find(seeds_.begin(), seeds_.end(), seed) == seeds_.end()) {
      seeds_.push_back(seed);
    }
  }
}

const LabNode* LabLayout::FindNode(const std::string& name) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const LabNode& node) { return node.name == name; });
  return found == nodes_.end() ? nullptr : &*found;
}

std::string LabLayout::HostAddress(int host) const {
  const int leaf = host / options_.hosts_per_leaf;
  const int slot = host % options_.hosts_per_leaf;
  return options_.ipv6 ? fmt::format("fd00:10:{:x}:{:x}::1", leaf, slot)
                       : fmt::format("10.{}.{}.1", leaf, slot);
}

std::string LabLayout::LeafAddressOfHost(int host) const {
  const int leaf = host / options_.hosts_per_leaf;
  const int slot = host % options_.hosts_per_leaf;
  return options_.ipv6 ? fmt::format("fd00:10:{:x}:{:x}::", leaf, slot)
                       : fmt::format("10.{}.{}.0", leaf, slot);
}

std::string LabLayout::LeafUplinkAddress(int leaf, int spine) const {
  return options_.ipv6 ? fmt::format("fd00:172:{:x}:{:x}::", leaf, spine)
                       : fmt::format("172.16.{}.{}", leaf, 2 * spine);
}

std::string LabLayout::SpineUplinkAddress(int leaf, int spine) const {
  return options_.ipv6 ? fmt::format("fd00:172:{:x}:{:x}::1", leaf, spine)
                       : fmt::format("172.16.{}.{}", leaf, 2 * spine + 1);
}

std::string LabLayout::ManagementAddress(int host) const {
  return fmt::format("10.255.{}.{}", 1 + host / 250, 1 + host % 250);
}

std::string LabLayout::LeafPrefix(int leaf) const {
  return options_.ipv6 ? fmt::format("fd00:10:{:x}::/48", leaf) : fmt::format("10.{}.0.0/16", leaf);
}

Result<fabric::TopologySpec> LabLayout::MakeTopology() const {
  Result<fabric::TopologySpec> spec = fabric::BuildLeafSpine(
      {.spines = options_.spines,
       .leaves = options_.leaves,
       .hosts_per_leaf = options_.hosts_per_leaf,
       .host_rate = std::max(kNominalRate, options_.link_rate.value_or(kNominalRate)),
       .fabric_rate = options_.link_rate.value_or(kNominalRate)});
  if (!spec) return spec;
  spec->name = options_.name;
  const auto address = [](const std::string& text) {
    return IpAddress::Parse(text).value_or(IpAddress());
  };
  for (fabric::Node& node : spec->nodes) {
    const LabNode* own = FindNode(node.id);
    if (own == nullptr) continue;
    if (own->role == Role::kHost) node.addresses = {address(HostAddress(own->index))};
    if (own->role == Role::kLeaf && options_.hash_hint) {
      node.ecmp = fabric::EcmpSpec{"linux", HashSeed(own->index)};
    }
  }
  for (fabric::Link& link : spec->links) {
    const LabNode* a = FindNode(spec->nodes[link.a.Index()].id);
    const LabNode* b = FindNode(spec->nodes[link.b.Index()].id);
    if (a == nullptr || b == nullptr) continue;
    if (a->role == Role::kHost) {
      link.a_address = address(HostAddress(a->index));
      link.b_address = address(LeafAddressOfHost(a->index));
      link.a_port = "eth0";
      link.b_port = fmt::format("h{}", a->index % options_.hosts_per_leaf);
    } else {
      link.a_address = address(LeafUplinkAddress(a->index, b->index));
      link.b_address = address(SpineUplinkAddress(a->index, b->index));
      link.a_port = fmt::format("s{}", b->index);
      link.b_port = fmt::format("l{}", a->index);
    }
  }
  return spec;
}

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
  if (node.role == Role::kLeaf) {
    sysctls.push_back(
        {"net/ipv4/fib_multipath_hash_seed", fmt::format("{}", HashSeed(node.index))});
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
  for (int h = 0; h < HostCount(); ++h) {
    const int leaf = h / options_.hosts_per_leaf;
    script +=
        fmt::format("link add name eth0 index {} netns h{} type veth peer name h{} netns leaf{}\n",
                    kHighIndex, h, h % options_.hosts_per_leaf, leaf);
    script += fmt::format("link add name mgmt0 index {} netns h{} type veth peer name mgmt-h{}\n",
                          10 * kHighIndex, h, h);
    script += fmt::format("addr add {} peer {}/32 dev mgmt-h{}\nlink set mgmt-h{} up\n",
                          ControllerAddress(), ManagementAddress(h), h, h);
  }
  for (int l = 0; l < options_.leaves; ++l) {
    for (int s = 0; s < options_.spines; ++s) {
      script += fmt::format(
          "link add name s{} index {} netns leaf{} type veth peer name l{} netns spine{}\n", s,
          kHighIndex + s, l, l, s);
    }
  }
  return script;
}

std::string LabLayout::NodeScript(const LabNode& node) const {
  std::string script = "link set lo up\n";
  switch (node.role) {
    case Role::kHost:
      return script + HostScript(node);
    case Role::kLeaf:
      return script + LeafScript(node) + RouteScript(node, {});
    case Role::kSpine:
      return script + SpineScript(node) + RouteScript(node, {});
  }
  return script;
}

std::string LabLayout::HostScript(const LabNode& node) const {
  const int length = options_.ipv6 ? 127 : 31;
  return fmt::format(
             "addr add {}/{} dev eth0\nlink set eth0 up\n"
             "addr add {} peer {}/32 dev mgmt0\nlink set mgmt0 up\n",
             HostAddress(node.index), length, ManagementAddress(node.index), ControllerAddress()) +
         HostRouteScript(node);
}

std::string LabLayout::HostRouteScript(const LabNode& node) const {
  return fmt::format("route replace {} via {} dev eth0\n", options_.ipv6 ? "::/0" : "0.0.0.0/0",
                     LeafAddressOfHost(node.index));
}

std::string LabLayout::LeafScript(const LabNode& node) const {
  const int length = options_.ipv6 ? 127 : 31;
  std::string script;
  for (int slot = 0; slot < options_.hosts_per_leaf; ++slot) {
    const int host = node.index * options_.hosts_per_leaf + slot;
    script += fmt::format("addr add {}/{} dev h{}\nlink set h{} up\n", LeafAddressOfHost(host),
                          length, slot, slot);
  }
  for (int s = 0; s < options_.spines; ++s) {
    script += fmt::format("addr add {}/{} dev s{}\nlink set s{} up\n",
                          LeafUplinkAddress(node.index, s), length, s, s);
  }
  // Without it, packets to an address without a host would loop between leaf and spine.
  return script + fmt::format("route replace blackhole {}\n", LeafPrefix(node.index));
}

std::string LabLayout::SpineScript(const LabNode& node) const {
  std::string script;
  for (int l = 0; l < options_.leaves; ++l) {
    script += fmt::format("addr add {}/{} dev l{}\nlink set l{} up\n",
                          SpineUplinkAddress(l, node.index), options_.ipv6 ? 127 : 31, l, l);
  }
  return script;
}

std::string LabLayout::RouteScript(const LabNode& node,
                                   const std::vector<std::string>& down) const {
  const auto is_up = [&](const std::string& interface) {
    return std::find(down.begin(), down.end(), interface) == down.end();
  };
  std::string script;
  if (node.role == Role::kLeaf) {
    std::string hops;
    for (int s = 0; s < options_.spines; ++s) {
      const std::string interface = fmt::format("s{}", s);
      if (!is_up(interface)) continue;
      hops += fmt::format(" nexthop via {} dev {}", SpineUplinkAddress(node.index, s), interface);
    }
    if (hops.empty()) return script;
    for (int l = 0; l < options_.leaves; ++l) {
      if (l != node.index) script += fmt::format("route replace {}{}\n", LeafPrefix(l), hops);
    }
  } else if (node.role == Role::kSpine) {
    for (int l = 0; l < options_.leaves; ++l) {
      const std::string interface = fmt::format("l{}", l);
      if (!is_up(interface)) continue;
      script += fmt::format("route replace {} via {} dev {}\n", LeafPrefix(l),
                            LeafUplinkAddress(l, node.index), interface);
    }
  }
  return script;
}

std::string LabLayout::ShaperScript(const LabNode& node) const {
  std::string script;
  if (!options_.link_rate || node.role == Role::kHost) return script;
  const bool leaf = node.role == Role::kLeaf;
  const int count = leaf ? options_.spines : options_.leaves;
  for (int i = 0; i < count; ++i) {
    script += fmt::format("qdisc replace dev {}{} root tbf rate {}bit burst {} latency 50ms\n",
                          leaf ? 's' : 'l', i, options_.link_rate->value, kShaperBurstBytes);
  }
  return script;
}

std::string LabLayout::CounterRules() {
  // One rule per address family counts packets to the RoCEv2 port by protocol, addresses and source
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
    meta l4proto { tcp, udp } th dport 4791 meta nfproto ipv4 update @flows4 { meta l4proto . ip saddr . ip daddr . th sport counter }
    meta l4proto { tcp, udp } th dport 4791 meta nfproto ipv6 update @flows6 { meta l4proto . ip6 saddr . ip6 daddr . th sport counter }
  }
}
)";
}

}  // namespace espalier::lab
