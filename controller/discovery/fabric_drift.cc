#include "controller/discovery/fabric_drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace espalier::discovery {
namespace {

// The ends of a link by which it is recognised: their addresses, and where one is unknown the name
// of the switch.
using LinkKey = std::pair<std::string, std::string>;

std::string KeyOf(const DiscoveredFabric& fabric, const DiscoveredLink::End& end) {
  return end.address.IsNone() ? fabric.switches[end.at].name : end.address.ToString();
}

std::string TextOf(const DiscoveredFabric& fabric, const DiscoveredLink& link) {
  return fmt::format("{} ({}) to {} ({})", fabric.switches[link.a.at].name,
                     link.a.address.ToString(), fabric.switches[link.b.at].name,
                     link.b.address.ToString());
}

std::map<LinkKey, const DiscoveredLink*> LinksOf(const DiscoveredFabric& fabric) {
  std::map<LinkKey, const DiscoveredLink*> links;
  for (const DiscoveredLink& link : fabric.links) {
    links.emplace(std::minmax(KeyOf(fabric, link.a), KeyOf(fabric, link.b)), &link);
  }
  return links;
}

bool ShareAnAddress(const DiscoveredSwitch& a, const DiscoveredSwitch& b) {
  return std::ranges::any_of(a.addresses, [&](const IpAddress& address) {
    return std::ranges::binary_search(b.addresses, address);
  });
}

}  // namespace

std::vector<std::string> FindDrift(const DiscoveredFabric& before,
                                   const std::vector<Endpoint>& nics_before,
                                   const DiscoveredFabric& after,
                                   const std::vector<Endpoint>& nics_after) {
  std::vector<std::string> drift;
  std::set<IpAddress> seen;
  for (const DiscoveredSwitch& each : after.switches) {
    if (!each.is_silent) seen.insert(each.addresses.begin(), each.addresses.end());
  }
  const auto old_links = LinksOf(before);
  const auto new_links = LinksOf(after);
  for (const auto& [key, link] : old_links) {
    const auto& addresses = before.switches[link->a.at].addresses;
    const bool is_seen =
        std::ranges::any_of(addresses, [&](const auto& address) { return seen.contains(address); });
    if (is_seen && !new_links.contains(key)) {
      drift.push_back(fmt::format("the link {} is gone", TextOf(before, *link)));
    }
  }
  for (const auto& [key, link] : new_links) {
    if (!old_links.contains(key)) {
      drift.push_back(fmt::format("the link {} is new", TextOf(after, *link)));
    }
  }
  std::map<IpAddress, std::size_t> old_nics;
  for (std::size_t i = 0; i < before.nics.size(); ++i) {
    old_nics.emplace(nics_before[i].address, i);
  }
  for (std::size_t i = 0; i < after.nics.size(); ++i) {
    const auto old = old_nics.find(nics_after[i].address);
    if (old == old_nics.end()) continue;
    const auto from = before.nics[old->second].at;
    const auto to = after.nics[i].at;
    if (!from || !to || ShareAnAddress(before.switches[*from], after.switches[*to])) continue;
    drift.push_back(fmt::format("{} ({}) is attached to {} instead of {}", nics_after[i].host,
                                nics_after[i].address.ToString(), after.switches[*to].name,
                                before.switches[*from].name));
  }
  return drift;
}

namespace {

using fabric::LinkId;
using fabric::NodeId;

// Compares one discovered fabric with one topology.
class Comparison {
 public:
  Comparison(const fabric::Topology& topology, const DiscoveredFabric& found)
      : topology_(topology), found_(found), tiers_(topology.nodes().size(), kNotSeen) {
    for (const DiscoveredSwitch& each : found.switches) {
      std::set<NodeId>& nodes = known_as_.emplace_back();
      for (const IpAddress& address : each.addresses) {
        const auto interface = topology.FindInterface(address);
        const bool is_switch =
            interface && topology.node(interface->node).kind == fabric::NodeKind::kSwitch;
        if (is_switch) nodes.insert(interface->node);
      }
      if (each.is_silent) continue;
      for (const NodeId node : nodes) tiers_[node.Index()] = each.tier;
    }
  }

  void CompareSwitches() {
    for (std::size_t i = 0; i < known_as_.size(); ++i) {
      if (known_as_[i].size() > 1) {
        Add("one switch has addresses of {}", NamesOf(known_as_[i], " and "));
      } else if (known_as_[i].empty() && !found_.switches[i].is_silent) {
        Add("the switch {} is not in the topology", found_.switches[i].name);
      }
    }
  }

  // To be called before CompareGivenLinks.
  void CompareFoundLinks() {
    for (const DiscoveredLink& link : found_.links) {
      const auto a = LinkAt(link.a);
      const auto b = LinkAt(link.b);
      if (a) met_.insert(*a);
      if (b) met_.insert(*b);
      if (a && b && *a != *b) {
        Add("{} of the link {} is wired to {} of the link {}", link.a.address.ToString(),
            topology_.link(*a).id, link.b.address.ToString(), topology_.link(*b).id);
      } else if (const auto known = a ? a : b; known && !Joins(*known, link)) {
        Add("the link {} joins {} and {} instead of {} and {}", topology_.link(*known).id,
            NameOf(link.a.at), NameOf(link.b.at), IdOf(topology_.link(*known).a),
            IdOf(topology_.link(*known).b));
      } else if (!known && !known_as_[link.a.at].empty() && !known_as_[link.b.at].empty() &&
                 !MeetLinksBetween(link.a.at, link.b.at)) {
        Add("the link between {} and {} ({}, {}) is not in the topology", NameOf(link.a.at),
            NameOf(link.b.at), link.a.address.ToString(), link.b.address.ToString());
      }
    }
  }

  void CompareGivenLinks() {
    const auto links = topology_.links();
    for (std::size_t i = 0; i < links.size(); ++i) {
      const LinkId id(static_cast<std::int32_t>(i));
      const bool has_address = !links[i].a_address.IsNone() || !links[i].b_address.IsNone();
      const bool is_due =
          topology_.IsSwitchToSwitch(id) && has_address && links[i].state == fabric::LinkState::kUp;
      if (!is_due || met_.contains(id) || !IsLowerEndSeen(links[i])) continue;
      Add("no probe has met the link {} of the topology", links[i].id);
    }
  }

  void CompareNics(const std::vector<Endpoint>& nics) {
    for (std::size_t i = 0; i < found_.nics.size(); ++i) {
      const auto nic = topology_.FindNic(nics[i].address);
      const std::string name = fmt::format("{} ({})", nics[i].host, nics[i].address.ToString());
      if (!nic) {
        Add("the NIC of {} is not in the topology", name);
        continue;
      }
      const auto at = found_.nics[i].at;
      if (!at || known_as_[*at].empty()) continue;
      std::set<NodeId> given;
      for (const fabric::DirectedLink direction : topology_.Outgoing(*nic)) {
        if (topology_.LeavesHost(direction)) given.insert(topology_.To(direction));
      }
      const bool is_there = std::ranges::any_of(
          known_as_[*at], [&](const NodeId node) { return given.contains(node); });
      if (is_there || given.empty()) continue;
      Add("{} is attached to {} instead of {}", name, NameOf(*at), NamesOf(given, " or "));
    }
  }

  std::vector<std::string> Take() {
    if (left_out_ > 0) {
      differences_.push_back(fmt::format("{} further differences are not listed", left_out_));
    }
    return std::move(differences_);
  }

 private:
  static constexpr int kNotSeen = -1;

  template <typename... Parts>
  void Add(fmt::format_string<Parts...> format, Parts&&... parts) {
    if (differences_.size() == kMostDifferences) {
      ++left_out_;
      return;
    }
    differences_.push_back(fmt::format(format, std::forward<Parts>(parts)...));
  }

  const std::string& IdOf(NodeId node) const { return topology_.node(node).id; }

  std::string NamesOf(const std::set<NodeId>& nodes, std::string_view between) const {
    std::string names;
    for (const NodeId node : nodes) {
      names += (names.empty() ? "" : std::string(between)) + IdOf(node);
    }
    return names;
  }

  // As the topology calls the switch, else as discovery does.
  std::string NameOf(SwitchIndex at) const {
    return known_as_[at].empty() ? found_.switches[at].name : NamesOf(known_as_[at], "/");
  }

  // The link between switches that has the address of this end.
  std::optional<LinkId> LinkAt(const DiscoveredLink::End& end) const {
    if (end.address.IsNone()) return std::nullopt;
    const auto interface = topology_.FindInterface(end.address);
    if (!interface || !interface->link) return std::nullopt;
    return topology_.IsSwitchToSwitch(*interface->link) ? interface->link : std::nullopt;
  }

  // Of switches that answer with one address for all their links, probes tell only which pairs are
  // joined: all links between them count as met. False: the topology has none.
  bool MeetLinksBetween(SwitchIndex a, SwitchIndex b) {
    bool has_any = false;
    for (const NodeId node : known_as_[a]) {
      for (const fabric::DirectedLink direction : topology_.Outgoing(node)) {
        if (!known_as_[b].contains(topology_.To(direction))) continue;
        met_.insert(direction.link);
        has_any = true;
      }
    }
    return has_any;
  }

  // Whether the link's ends are these switches; a switch without a known address may be any.
  bool Joins(LinkId id, const DiscoveredLink& found) const {
    const fabric::Link& link = topology_.link(id);
    return std::ranges::all_of(std::array{found.a.at, found.b.at}, [&](const SwitchIndex at) {
      const std::set<NodeId>& nodes = known_as_[at];
      return nodes.empty() ? found_.switches[at].is_silent
                           : nodes.contains(link.a) || nodes.contains(link.b);
    });
  }

  // Whether probes have seen the end from which they would take the link upwards.
  bool IsLowerEndSeen(const fabric::Link& link) const {
    const int a = tiers_[link.a.Index()];
    const int b = tiers_[link.b.Index()];
    if (a != kNotSeen && b != kNotSeen) return true;
    if (a == kNotSeen && b == kNotSeen) return false;
    const NodeId seen = a != kNotSeen ? link.a : link.b;
    const NodeId other = a != kNotSeen ? link.b : link.a;
    return std::max(a, b) == 1 || topology_.node(seen).role < topology_.node(other).role;
  }

  const fabric::Topology& topology_;
  const DiscoveredFabric& found_;
  std::vector<std::set<NodeId>> known_as_;  // the switches of the topology, by SwitchIndex
  std::vector<int> tiers_;                  // by node, as discovered
  std::set<LinkId> met_;
  std::vector<std::string> differences_;
  std::size_t left_out_ = 0;
};

}  // namespace

std::vector<std::string> CompareWithTopology(const fabric::Topology& topology,
                                             const DiscoveredFabric& found,
                                             const std::vector<Endpoint>& nics) {
  if (topology.nodes().empty()) return {};
  Comparison comparison(topology, found);
  comparison.CompareSwitches();
  comparison.CompareFoundLinks();
  comparison.CompareGivenLinks();
  comparison.CompareNics(nics);
  return comparison.Take();
}

}  // namespace espalier::discovery
