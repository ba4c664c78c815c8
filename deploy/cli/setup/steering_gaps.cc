#include "deploy/cli/setup/steering_gaps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace espalier::cli {
namespace {

using fabric::Link;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::Topology;

// What a leaf has: bandwidths in bits per second, and the number of links to other switches.
struct LeafPorts {
  std::string_view id;
  std::int64_t down_bps = 0;
  std::int64_t up_bps = 0;
  int uplinks = 0;
};

struct Counts {
  std::size_t endpoints = 0;
  std::size_t unaddressed_endpoints = 0;
  std::size_t switch_ends = 0;  // of links between switches
  std::size_t unaddressed_ends = 0;
  std::vector<LeafPorts> leaves;  // with endpoints and uplinks, by node
};

Counts Count(const Topology& topology, const fabric::PathTable& paths) {
  Counts counts;
  std::vector<bool> has_address(topology.nodes().size());
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    has_address[i] = !topology.nodes()[i].addresses.empty();
  }
  std::vector<LeafPorts> ports(topology.nodes().size());
  for (const Link& link : topology.links()) {
    const bool is_switch_a = topology.node(link.a).kind == NodeKind::kSwitch;
    const bool is_switch_b = topology.node(link.b).kind == NodeKind::kSwitch;
    const bool between_switches = is_switch_a && is_switch_b;
    for (const bool at_a : {true, false}) {
      const std::size_t end = (at_a ? link.a : link.b).Index();
      const bool addressed = !(at_a ? link.a_address : link.b_address).IsNone();
      has_address[end] = has_address[end] || addressed;
      if (between_switches) {
        ++counts.switch_ends;
        counts.unaddressed_ends += addressed ? 0 : 1;
        ports[end].up_bps += link.rate.value;
        ++ports[end].uplinks;
      } else {
        ports[end].down_bps += link.rate.value;
      }
    }
  }
  std::vector<bool> is_leaf(ports.size());
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    if (!topology.IsFlowEndpoint(node)) continue;
    const auto attachment = paths.FindAttachment(node);
    if (!attachment) continue;
    ++counts.endpoints;
    counts.unaddressed_endpoints += has_address[i] ? 0 : 1;
    is_leaf[attachment->leaf.Index()] = true;
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!is_leaf[i]) continue;
    ports[i].id = topology.nodes()[i].id;
    counts.leaves.push_back(ports[i]);
  }
  return counts;
}

// NICs with links to several switches, which have no leaf, so that nothing steers them.
std::vector<std::string> FindSeveralUplinks(const Topology& topology,
                                            const fabric::PathTable& paths) {
  constexpr std::size_t kMostNamed = 16;
  std::string named;
  std::size_t count = 0;
  std::size_t most_links = 0;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    if (topology.node(node).kind == NodeKind::kSwitch || paths.FindAttachment(node)) continue;
    std::string switches;
    std::size_t links = 0;
    for (const fabric::DirectedLink link : topology.Outgoing(node)) {
      const fabric::Node& other = topology.node(topology.To(link));
      const bool is_fabric = other.kind == NodeKind::kSwitch && other.host.empty();
      if (!is_fabric) continue;
      switches += (switches.empty() ? "" : " and ") + other.id;
      ++links;
    }
    if (links < 2) continue;
    most_links = std::max(most_links, links);
    if (++count > kMostNamed) continue;
    named += fmt::format("{}{} to {}", named.empty() ? "" : ", ", topology.node(node).id, switches);
  }
  if (count == 0) return {};
  if (count > kMostNamed) named += fmt::format(", and {} more", count - kMostNamed);
  return {fmt::format(
      "{} NIC{} with several uplinks ({}): the host or its bond chooses the first hop, which a "
      "source port does not, so their flows are not steered and one may have 1 of {} links only "
      "(give each port a NIC node and an address of its own, if flows can choose it)",
      count, count == 1 ? "" : "s", named, most_links)};
}

}  // namespace

std::vector<std::string> FindSteeringGaps(const Topology& topology,
                                          const fabric::PathTable& paths) {
  const Counts counts = Count(topology, paths);
  std::vector<std::string> gaps = FindSeveralUplinks(topology, paths);
  if (counts.endpoints == 0 && !gaps.empty()) return gaps;
  if (counts.endpoints == 0) {
    gaps.emplace_back("no NIC or host is at a switch, so that there is nothing to steer");
    return gaps;
  }
  if (counts.unaddressed_endpoints > 0) {
    gaps.push_back(
        fmt::format("{} of {} NICs have no address, by which agents and flows are recognised (set "
                    "\"addresses\" of the node, or the address of its end of the link)",
                    counts.unaddressed_endpoints, counts.endpoints));
  }
  if (counts.unaddressed_ends > 0) {
    gaps.push_back(
        fmt::format("{} of {} switch ends of links have no address, by which answers to probes are "
                    "recognised (set \"a_address\" and \"b_address\")",
                    counts.unaddressed_ends, counts.switch_ends));
  }
  if (counts.leaves.size() < 2) return gaps;
  const auto [least, most] = std::ranges::minmax_element(counts.leaves, {}, &LeafPorts::uplinks);
  if (least->uplinks < 2) {
    gaps.push_back(fmt::format("{} has {} uplink{}, so that its flows have no choice of paths",
                               least->id, least->uplinks, least->uplinks == 1 ? "" : "s"));
  }
  if (least->uplinks != most->uplinks) {
    gaps.push_back(fmt::format("leaves differ: {} has {} uplinks, {} has {}", least->id,
                               least->uplinks, most->id, most->uplinks));
  }
  const auto ratio = [](const LeafPorts& leaf) {
    return static_cast<double>(leaf.down_bps) /
           static_cast<double>(std::max<std::int64_t>(leaf.up_bps, 1));
  };
  const auto worst = std::ranges::max_element(counts.leaves, {}, ratio);
  if (worst->up_bps > 0 && ratio(*worst) > 1) {
    gaps.push_back(
        fmt::format("{} is oversubscribed {:.3g} to 1: flows share its uplinks however they are "
                    "steered",
                    worst->id, ratio(*worst)));
  }
  return gaps;
}

}  // namespace espalier::cli
