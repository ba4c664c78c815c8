#include "tests/controller/discovery/probe_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>

#include "common/base/check.h"

namespace espalier::discovery {

using fabric::DirectedLink;
using fabric::Link;
using fabric::LinkId;
using fabric::Node;
using fabric::NodeId;
using fabric::NodeKind;

namespace {

NodeId IdOf(std::size_t index) { return NodeId(static_cast<std::int32_t>(index)); }

std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111eb;
  return x ^ (x >> 31U);
}

}  // namespace

ProbeWorld::ProbeWorld(fabric::TopologySpec spec, Faults faults, std::uint64_t seed)
    : topology_(fabric::Topology::Build(std::move(spec)).value()),
      faults_(std::move(faults)),
      seed_(seed),
      random_(seed) {}

std::vector<Endpoint> ProbeWorld::Endpoints() const {
  std::vector<Endpoint> endpoints;
  for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
    const Node& node = topology_.node(IdOf(i));
    if (node.kind == NodeKind::kSwitch || node.addresses.empty()) continue;
    endpoints.push_back({fabric::HostOf(node), node.id, node.addresses.front()});
  }
  return endpoints;
}

DirectedLink ProbeWorld::Uplink(NodeId nic) const {
  for (const DirectedLink out : topology_.Outgoing(nic)) {
    if (topology_.LeavesHost(out)) return out;
  }
  ESPALIER_CHECK(false, "a NIC without a switch");
  return {};
}

const std::vector<ProbeWorld::Links>& ProbeWorld::RoutesTo(NodeId leaf) {
  const auto [found, is_new] = routes_.try_emplace(leaf);
  if (!is_new) return found->second;
  constexpr int kFar = 1'000'000;
  std::vector<int> distance(topology_.nodes().size(), kFar);
  std::deque<NodeId> queue = {leaf};
  distance[leaf.Index()] = 0;
  const auto is_fabric = [&](DirectedLink link) {
    return topology_.IsSwitchToSwitch(link.link) &&
           topology_.link(link.link).state == fabric::LinkState::kUp;
  };
  while (!queue.empty()) {
    const NodeId at = queue.front();
    queue.pop_front();
    for (const DirectedLink out : topology_.Outgoing(at)) {
      const NodeId next = topology_.To(out);
      if (!is_fabric(out) || distance[next.Index()] != kFar) continue;
      distance[next.Index()] = distance[at.Index()] + 1;
      queue.push_back(next);
    }
  }
  found->second.resize(topology_.nodes().size());
  for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
    for (const DirectedLink out : topology_.Outgoing(IdOf(i))) {
      const bool is_closer = distance[topology_.To(out).Index()] + 1 == distance[i];
      if (is_fabric(out) && is_closer) found->second[i].push_back(out);
    }
  }
  return found->second;
}

std::uint64_t ProbeWorld::Hash(NodeId at, NodeId source, NodeId destination,
                               std::uint16_t port) const {
  std::uint64_t hash = seed_;
  for (const std::uint64_t value : {std::uint64_t{at.Index()}, std::uint64_t{source.Index()},
                                    std::uint64_t{destination.Index()}, std::uint64_t{port}}) {
    hash = Mix(hash + 0x9e3779b97f4a7c15 + value);
  }
  return hash;
}

ProbeWorld::Links ProbeWorld::PathOf(NodeId source, NodeId destination, std::uint16_t port) {
  const DirectedLink up = Uplink(source);
  DirectedLink down = Uplink(destination);
  down.forward = !down.forward;
  const NodeId leaf = topology_.From(down);
  Links path = {up};
  NodeId at = topology_.To(up);
  while (at != leaf) {
    const Links& next = RoutesTo(leaf)[at.Index()];
    if (next.empty()) return path;
    path.push_back(next[Hash(at, source, destination, port) % next.size()]);
    at = topology_.To(path.back());
  }
  path.push_back(down);
  return path;
}

IpAddress ProbeWorld::AddressAt(LinkId link, NodeId node) const {
  const Link& of = topology_.link(link);
  const auto other = faults_.addresses.find({of.id, topology_.node(node).id});
  if (other != faults_.addresses.end()) return other->second;
  return of.a == node ? of.a_address : of.b_address;
}

IpAddress ProbeWorld::AnswerOf(DirectedLink in, NodeId source, std::uint16_t port) {
  const NodeId at = topology_.To(in);
  const bool is_fabric = topology_.IsSwitchToSwitch(in.link);
  if (faults_.has_loopbacks && is_fabric) {
    return IpAddress::FromV4(0xC0A80000U + 16 * static_cast<std::uint32_t>(at.Index()));
  }
  const NodeId leaf = topology_.To(Uplink(source));
  if (faults_.misleading.contains(topology_.node(at).id) && at != leaf) {
    const Links& back = RoutesTo(leaf)[at.Index()];
    return AddressAt(back[Hash(at, at, source, port) % back.size()].link, at);
  }
  return AddressAt(in.link, at);
}

std::optional<IpAddress> ProbeWorld::Probe(const IpAddress& source, const IpAddress& destination,
                                           std::uint16_t port, std::uint8_t ttl) {
  const NodeId from = *topology_.FindNic(source);
  const NodeId to = *topology_.FindNic(destination);
  const Links path = PathOf(from, to, port);
  const bool is_lost = std::uniform_real_distribution<>(0, 1)(random_) < faults_.lost;
  const bool arrives = topology_.To(path.back()) == to;
  if (ttl >= path.size() && arrives) {
    return is_lost || !faults_.hosts_answer ? std::nullopt : std::optional(destination);
  }
  if (ttl > path.size()) return std::nullopt;
  const DirectedLink in = path[ttl - 1U];
  const NodeId at = topology_.To(in);
  if (faults_.silent.contains(topology_.node(at).id)) return std::nullopt;
  ++answers_[at];
  if (is_lost) return std::nullopt;
  return AnswerOf(in, from, port);
}

void ProbeWorld::SetState(const std::string& link, fabric::LinkState state) {
  topology_.SetLinkState(*topology_.FindLink(link), state);
  routes_.clear();
}

std::size_t ProbeWorld::BusiestSwitch() const {
  std::size_t most = 0;
  for (const auto& [at, count] : answers_) most = std::max(most, count);
  return most;
}

namespace {

std::string LinkText(const IpAddress& a, const IpAddress& b) {
  const auto [first, second] = std::minmax(a, b);
  return fmt::format("{}-{}", first.ToString(), second.ToString());
}

}  // namespace

std::string ProbeWorld::Difference(const DiscoveredFabric& fabric,
                                   const std::vector<Endpoint>& nics) const {
  std::vector<std::string> differences;
  std::vector<std::string> names(fabric.switches.size());
  std::set<std::string> seen;
  for (std::size_t i = 0; i < fabric.switches.size(); ++i) {
    const DiscoveredSwitch& each = fabric.switches[i];
    std::set<std::string> owners;
    for (const IpAddress& address : each.addresses) {
      const auto interface = topology_.FindInterface(address);
      owners.insert(interface ? topology_.node(interface->node).id : address.ToString());
    }
    names[i] = fmt::format("{}", fmt::join(owners, "+"));
    if (owners.size() != 1) differences.push_back(fmt::format("{} is {}", each.name, names[i]));
    if (!seen.insert(names[i]).second) differences.push_back(names[i] + " twice");
    const auto node = topology_.FindNode(names[i]);
    if (node && topology_.node(*node).role != each.role) {
      differences.push_back(names[i] + " has another role");
    }
  }
  std::set<std::string> links;
  for (const Link& link : topology_.links()) {
    const LinkId id = *topology_.FindLink(link.id);
    if (topology_.IsSwitchToSwitch(id) && link.state == fabric::LinkState::kUp) {
      links.insert(LinkText(link.a_address, link.b_address));
    }
  }
  for (const DiscoveredLink& link : fabric.links) {
    const std::string text = LinkText(link.a.address, link.b.address);
    if (links.erase(text) == 0) {
      differences.push_back(
          fmt::format("no link {} ({} to {})", text, names[link.a.at], names[link.b.at]));
    }
  }
  for (const std::string& text : links) differences.push_back("missing " + text);
  for (std::size_t i = 0; i < fabric.nics.size(); ++i) {
    const Endpoint& nic = nics[i];
    const DirectedLink up = Uplink(*topology_.FindNic(nic.address));
    const auto at = fabric.nics[i].at;
    if (!at || names[*at] != topology_.node(topology_.To(up)).id) {
      differences.push_back(fmt::format("{} is at {}", nic.host, at ? names[*at] : "none"));
    } else if (fabric.nics[i].switch_address != AddressAt(up.link, topology_.To(up))) {
      differences.push_back(nic.host + " has another address at its switch");
    }
  }
  constexpr std::size_t kMost = 12;
  if (differences.size() > kMost) differences.resize(kMost);
  return fmt::format("{}", fmt::join(differences, "; "));
}

void Continue(ProbeWorld& world, Discovered& discovered) {
  Discovery& discovery = *discovered.discovery;
  for (std::vector<Ask> batch = discovery.NextBatch(); !batch.empty();
       batch = discovery.NextBatch()) {
    discovered.seconds += discovery.batch_seconds();
    for (const Ask& ask : batch) {
      const auto& endpoints = discovery.evidence().endpoints();
      for (const std::uint8_t ttl : ask.ttls) {
        const auto answer = world.Probe(endpoints[ask.source].address,
                                        endpoints[ask.destination].address, ask.port, ttl);
        if (!answer) continue;
        discovery.HandleAnswer(ask.source, ask.destination, ask.port, ttl, *answer);
      }
    }
    discovery.EndBatch();
  }
}

Discovered Discover(ProbeWorld& world, const ProbeChoice::Options& options) {
  Discovered discovered{std::make_unique<Discovery>(options)};
  for (const Endpoint& endpoint : world.Endpoints()) discovered.discovery->AddEndpoint(endpoint);
  Continue(world, discovered);
  return discovered;
}

}  // namespace espalier::discovery
