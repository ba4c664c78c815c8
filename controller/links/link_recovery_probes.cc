#include "controller/links/link_recovery_probes.h"

#include <algorithm>
#include <utility>

#include "controller/paths/path_answers.h"
#include "controller/paths/path_learner.h"

namespace espalier::controller {

using fabric::LinkId;
using fabric::NodeId;
using fabric::Path;

namespace {

constexpr Duration kInterval = std::chrono::seconds(1);  // between orders about one link
constexpr Duration kAnswerTimeout = std::chrono::milliseconds(100);
constexpr Duration kGrace = std::chrono::seconds(3);
constexpr std::size_t kMaxOpen = 16;
constexpr std::uint32_t kPorts = 16;  // of one order, besides those that led over the link before
constexpr std::size_t kKnownPorts = 8;
constexpr std::size_t kMaxPairs = 64;
constexpr std::uint32_t kPortStep = 10'007;  // odd, so that no port comes twice

// A packet of TTL t expires behind hop t - 2 of its path between leaves.
constexpr std::size_t kTtlOfFirstHop = 2;

std::optional<std::size_t> HopOver(const Path& path, LinkId link) {
  const auto hop = std::ranges::find(path.hops, link, &fabric::DirectedLink::link);
  if (hop == path.hops.end()) return std::nullopt;
  return static_cast<std::size_t>(hop - path.hops.begin());
}

}  // namespace

std::vector<LinkRecoveryProbes::AddressedProbe> LinkRecoveryProbes::Ask(
    std::span<const LinkId> links, TimePoint now) {
  std::erase_if(open_, [&](const auto& entry) { return entry.second.deadline <= now; });
  std::erase_if(asked_, [&](const auto& entry) {
    return std::ranges::find(links, entry.first) == links.end();
  });
  std::vector<AddressedProbe> probes;
  for (const LinkId link : links) {
    if (open_.size() >= kMaxOpen) break;
    const auto [asked, is_new] = asked_.try_emplace(link);
    if (!is_new && now - asked->second.last < kInterval) continue;
    asked->second.last = now;
    if (auto probe = MakeProbe(link, asked->second.times++, now)) {
      probes.push_back(std::move(*probe));
    }
  }
  return probes;
}

std::optional<LinkRecoveryProbes::Pair> LinkRecoveryProbes::FindPair(LinkId link,
                                                                     std::uint32_t times) {
  struct End {
    NodeId nic;
    NodeId leaf;
  };
  std::vector<std::pair<AgentId, End>> sources;
  std::map<NodeId, End> destinations;  // one for each leaf
  for (std::size_t i = 0; i < state_.topology.nodes().size(); ++i) {
    const NodeId nic(static_cast<std::int32_t>(i));
    if (state_.topology.node(nic).addresses.empty()) continue;
    const auto attachment = state_.paths.FindAttachment(nic);
    if (!attachment) continue;
    const auto agent = agent_of_(nic);
    if (agent) sources.push_back({*agent, {nic, attachment->leaf}});
    destinations.try_emplace(attachment->leaf, End{nic, attachment->leaf});
  }
  // If the link ends at a leaf, paths to that leaf can use it.
  const fabric::Link& ends = state_.topology.link(link);
  for (const NodeId leaf : {ends.a, ends.b}) {
    const auto found = destinations.find(leaf);
    if (found == destinations.end()) continue;
    destinations = {*found};
    break;
  }
  std::size_t tried = 0;
  for (std::size_t i = 0; i < sources.size() && tried < kMaxPairs; ++i) {
    const auto& [agent, source] = sources[(i + times) % sources.size()];
    for (const auto& [leaf, destination] : destinations) {
      if (leaf == source.leaf || ++tried > kMaxPairs) continue;
      const auto paths = state_.paths.Between(source.leaf, leaf);
      const bool goes_over = std::ranges::any_of(
          paths, [&](const Path& path) { return HopOver(path, link).has_value(); });
      if (goes_over) return Pair{agent, source.nic, destination.nic, source.leaf, leaf};
    }
  }
  return std::nullopt;
}

std::optional<LinkRecoveryProbes::AddressedProbe> LinkRecoveryProbes::MakeProbe(LinkId link,
                                                                                std::uint32_t times,
                                                                                TimePoint now) {
  const auto pair = FindPair(link, times);
  if (!pair) return std::nullopt;
  const auto paths = state_.paths.Between(pair->source_leaf, pair->destination_leaf);
  Open open{.agent = pair->agent,
            .link = link,
            .source_leaf = pair->source_leaf,
            .destination_leaf = pair->destination_leaf,
            .ports = {},
            .ttls = {},
            .answers = {},
            .deadline = now + kAnswerTimeout + kGrace};
  for (const std::uint8_t ttl : DistinguishingTtls(paths)) open.ttls.insert(ttl);
  for (const Path& path : paths) {
    if (const auto hop = HopOver(path, link)) {
      open.ttls.insert(static_cast<std::uint8_t>(*hop + kTtlOfFirstHop));
    }
  }
  const fabric::PortKey key{.source = pair->source, .destination = pair->destination};
  for (const fabric::PortEntry& entry : state_.path_map.Ports(key)) {
    if (open.ports.size() == kKnownPorts) break;
    if (HopOver(paths[entry.path.Index()], link)) open.ports.insert(entry.port);
  }
  for (std::uint32_t i = 0; i < kPorts; ++i) {
    const std::uint32_t offset = (times * kPorts + i) * kPortStep % fabric::kRocePortCount;
    open.ports.insert(static_cast<std::uint16_t>(fabric::kFirstRocePort + offset));
  }
  wire::ProbeOrder order;
  order.order = numbers_.Next();
  order.source = state_.topology.node(pair->source).addresses.front();
  order.destination = state_.topology.node(pair->destination).addresses.front();
  order.destination_port = fabric::PortKey{}.destination_port;
  order.source_ports.assign(open.ports.begin(), open.ports.end());
  order.ttls.assign(open.ttls.begin(), open.ttls.end());
  order.timeout_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(kAnswerTimeout).count());
  open_.emplace(order.order, std::move(open));
  return AddressedProbe{pair->agent, std::move(order)};
}

std::optional<LinkId> LinkRecoveryProbes::TakeAnswer(AgentId from,
                                                     const wire::ProbeReport& report) {
  const auto found = open_.find(report.order);
  if (found == open_.end() || found->second.agent != from) return std::nullopt;
  Open& open = found->second;
  const auto paths = state_.paths.Between(open.source_leaf, open.destination_leaf);
  std::optional<LinkId> alive;
  for (const wire::ProbeAnswer& answer : report.answers) {
    if (!open.ports.contains(answer.source_port) || !open.ttls.contains(answer.ttl)) continue;
    auto& answers = open.answers[answer.source_port];
    if (answers.size() >= open.ttls.size()) continue;
    answers.push_back(answer);
    const auto path = PathOfAnswers(state_.topology, paths, answers);
    const auto hop = path ? HopOver(paths[path->Index()], open.link) : std::nullopt;
    if (!hop) continue;
    const bool passed = std::ranges::any_of(
        answers, [&](const auto& each) { return each.ttl >= *hop + kTtlOfFirstHop; });
    if (passed) alive = open.link;
  }
  if (alive || report.done) open_.erase(found);
  return alive;
}

}  // namespace espalier::controller
