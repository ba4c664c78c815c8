#include "deploy/cli/setup/steering_gaps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

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
    for (const fabric::DirectedLink link : topology.Outgoing(node)) {
      if (topology.LeavesHost(link)) is_leaf[topology.To(link).Index()] = true;
    }
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!is_leaf[i]) continue;
    ports[i].id = topology.nodes()[i].id;
    counts.leaves.push_back(ports[i]);
  }
  return counts;
}

// What a source port decides at a NIC with several uplinks, and what an operator can do about it.
std::string_view ConsequenceOf(fabric::UplinkChoice choice) {
  switch (choice) {
    case fabric::UplinkChoice::kUnknown:
      return "the file does not state what chooses the first hop, and it is assumed that source "
             "ports do, as probes must show (set \"uplink\" to hash, affinity or fixed)";
    case fabric::UplinkChoice::kAffinity:
      return "the port affinity of a queue pair chooses the first hop, which a source port does "
             "not: an assignment holds only where programs set the affinity accordingly "
             "(mlx5dv_modify_qp_lag_port), and the controller steers none of their flows";
    case fabric::UplinkChoice::kFixed:
      return "their hosts fix the first hop, which nothing can choose, so that their flows are not "
             "steered (declare a NIC with an address for each port, if flows can choose it)";
    case fabric::UplinkChoice::kHash:
      break;
  }
  return "";
}

std::vector<fabric::DirectedLink> UplinksOf(const Topology& topology, NodeId node) {
  std::vector<fabric::DirectedLink> uplinks;
  if (topology.node(node).kind == NodeKind::kSwitch) return uplinks;
  for (const fabric::DirectedLink link : topology.Outgoing(node)) {
    if (topology.LeavesHost(link)) uplinks.push_back(link);
  }
  return uplinks;
}

// NICs or links that have something in common: the first 16, and the number of the others.
class NamedParts {
 public:
  void Add(std::string name) {
    if (++count_ > kMostNamed) return;
    text_ += (text_.empty() ? "" : ", ") + name;
  }
  std::size_t count() const { return count_; }
  std::string Text() const {
    return count_ > kMostNamed ? text_ + fmt::format(", and {} more", count_ - kMostNamed) : text_;
  }

 private:
  static constexpr std::size_t kMostNamed = 16;
  std::string text_;
  std::size_t count_ = 0;
};

// NICs with links to several switches whose first hop a source port may not choose, or that are
// unequal.
std::vector<std::string> FindSeveralUplinks(const Topology& topology) {
  std::map<fabric::UplinkChoice, NamedParts> by_choice;
  NamedParts unequal;
  NamedParts doubled;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    const auto uplinks = UplinksOf(topology, node);
    if (uplinks.size() < 2) continue;
    std::string switches;
    std::set<NodeId> leaves;
    bool is_equal = true;
    for (const fabric::DirectedLink link : uplinks) {
      switches += (switches.empty() ? "" : " and ") + topology.node(topology.To(link)).id;
      leaves.insert(topology.To(link));
      is_equal =
          is_equal && topology.link(link.link).rate == topology.link(uplinks.front().link).rate;
    }
    by_choice[topology.node(node).uplink].Add(
        fmt::format("{} to {}", topology.node(node).id, switches));
    if (!is_equal) unequal.Add(topology.node(node).id);
    if (leaves.size() < uplinks.size()) doubled.Add(topology.node(node).id);
  }
  std::vector<std::string> gaps;
  for (const auto& [choice, nics] : by_choice) {
    const std::string_view consequence = ConsequenceOf(choice);
    if (consequence.empty()) continue;
    gaps.push_back(fmt::format("{} NIC{} with several uplinks ({}): {}", nics.count(),
                               nics.count() == 1 ? "" : "s", nics.Text(), consequence));
  }
  if (doubled.count() > 0) {
    gaps.push_back(
        fmt::format("several uplinks of {} join one switch, which chooses among them for what "
                    "is sent to that NIC: no probe shows that choice, so that the controller "
                    "learns no ports of paths to it",
                    doubled.Text()));
  }
  if (unequal.count() > 0) {
    gaps.push_back(
        fmt::format("uplinks of {} differ in rate, for which no theorem holds", unequal.Text()));
  }
  return gaps;
}

// LAGs, whose members no path chooses.
std::string DescribeLags(const Topology& topology) {
  NamedParts lags;
  int least = 0;
  for (const Link& link : topology.links()) {
    if (link.members == 1) continue;
    lags.Add(fmt::format("{} of {}", link.id, link.members));
    least = least == 0 ? link.members : std::min(least, link.members);
  }
  if (lags.count() == 0) return "";
  return fmt::format(
      "{} link{} of several members ({}): switches hash flows onto members, which no path chooses, "
      "so "
      "that two flows share one of {} members with a probability of 1/{} (parallel links in the "
      "file, with an address each, can be chosen)",
      lags.count(), lags.count() == 1 ? "" : "s", lags.Text(), least, least);
}

}  // namespace

std::vector<std::string> FindSteeringGaps(const Topology& topology,
                                          const fabric::PathTable& paths) {
  const Counts counts = Count(topology, paths);
  std::vector<std::string> gaps = FindSeveralUplinks(topology);
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
  if (std::string lags = DescribeLags(topology); !lags.empty()) gaps.push_back(std::move(lags));
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
