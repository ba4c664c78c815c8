#include "controller/links/link_failure_probes.h"

#include <algorithm>
#include <utility>

#include "controller/paths/path_answers.h"
#include "controller/paths/path_learner.h"

namespace espalier::controller {

using fabric::LinkId;
using fabric::Path;
using fabric::PathIndex;
using fabric::PortKey;

namespace {

// An agent that has not answered this long after the timeout has lost the order.
constexpr Duration kGrace = std::chrono::seconds(1);
// A packet of TTL t expires at the t-th switch; a path over h links between switches has h + 1.
constexpr std::size_t kFirstSwitch = 1;

bool GoesOver(const Path& path, LinkId link) {
  return std::any_of(path.hops.begin(), path.hops.end(),
                     [&](fabric::DirectedLink hop) { return hop.link == link; });
}

}  // namespace

LinkFailureProbes::LinkFailureProbes(State& state, AgentOf agent_of,
                                     LinkFailureProbesOptions options)
    : state_(state), agent_of_(std::move(agent_of)), options_(options) {}

std::vector<LinkFailureProbes::AddressedProbe> LinkFailureProbes::Ask(AgentId reporter,
                                                                      std::span<const LinkId> links,
                                                                      TimePoint now) {
  std::vector<AddressedProbe> probes = RetryProbes(now);
  for (const LinkId link : links) {
    if (!HasRoom()) break;
    const Suspicion suspicion{reporter, now, now + options_.patience};
    if (!suspicions_.try_emplace(link, suspicion).second) continue;
    AskAbout(reporter, link, now, probes);
  }
  return probes;
}

std::vector<LinkFailureProbes::AddressedProbe> LinkFailureProbes::RetryProbes(TimePoint now) {
  std::erase_if(open_, [&](const auto& entry) { return entry.second.deadline <= now; });
  std::vector<AddressedProbe> probes;
  for (auto entry = suspicions_.begin(); entry != suspicions_.end();) {
    auto& [link, suspicion] = *entry;
    if (now - suspicion.asked < options_.interval) {
      ++entry;
    } else if (now >= suspicion.until) {
      entry = suspicions_.erase(entry);
    } else {
      if (HasRoom()) {
        suspicion.asked = now;
        AskAbout(suspicion.reporter, link, now, probes);
      }
      ++entry;
    }
  }
  return probes;
}

void LinkFailureProbes::AskAbout(AgentId reporter, LinkId link, TimePoint now,
                                 std::vector<AddressedProbe>& probes) {
  std::set<AgentId> asked;
  for (const auto& [key, slots] : state_.flow_paths.pairs()) {
    if (asked.size() >= options_.hosts) break;
    const Flow& flow = state_.flows.At(*slots.begin());
    const auto paths = state_.paths.Between(flow.source_leaf, flow.destination_leaf);
    const auto agent = agent_of_(key.source);
    if (!agent || *agent == reporter || asked.contains(*agent)) continue;
    auto probe = MakeProbe(*agent, key, paths, link, now);
    if (!probe) continue;
    asked.insert(*agent);
    probes.push_back(std::move(*probe));
  }
}

std::optional<PathIndex> LinkFailureProbes::PathOver(std::span<const Path> paths,
                                                     LinkId link) const {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!GoesOver(paths[i], link)) continue;
    if (paths[i].hops.front().link == link) return std::nullopt;
    return PathIndex(static_cast<std::int32_t>(i));
  }
  return std::nullopt;
}

std::optional<LinkFailureProbes::AddressedProbe> LinkFailureProbes::MakeProbe(
    AgentId agent, const PortKey& key, std::span<const Path> paths, LinkId link, TimePoint now) {
  const auto suspect = PathOver(paths, link);
  if (!suspect) return std::nullopt;
  Open open{.agent = agent, .suspect = link, .key = key, .path = *suspect};
  for (const fabric::PortEntry& entry : state_.path_map.Ports(key)) {
    if (entry.trust == fabric::PortTrust::kReverify) continue;
    const Path& path = paths[entry.path.Index()];
    const bool is_beside = !GoesOver(path, link) && fabric::IsAlive(state_.topology, path);
    std::set<std::uint16_t>* const group =
        entry.path == *suspect ? &open.over : (is_beside ? &open.beside : nullptr);
    if (group != nullptr && group->size() < options_.max_ports) group->insert(entry.port);
  }
  if (open.over.empty() || open.beside.empty()) return std::nullopt;
  const Path& path = paths[suspect->Index()];
  open.links.assign(path.hops.begin(), path.hops.end());
  open.last_ttl = static_cast<std::uint8_t>(path.hops.size() + kFirstSwitch);
  std::vector<std::uint8_t> ttls = DistinguishingTtls(paths);
  if (std::find(ttls.begin(), ttls.end(), open.last_ttl) == ttls.end()) {
    ttls.push_back(open.last_ttl);
  }
  open.deadline = now + options_.answer_timeout + kGrace;

  wire::ProbeOrder order;
  order.order = numbers_.Next();
  order.source = state_.topology.node(key.source).addresses.front();
  order.destination = state_.topology.node(key.destination).addresses.front();
  order.destination_port = key.destination_port;
  order.destination_qpn = key.destination_qpn;
  order.source_ports.assign(open.over.begin(), open.over.end());
  order.source_ports.insert(order.source_ports.end(), open.beside.begin(), open.beside.end());
  open.ttls = ttls.size();
  order.ttls = std::move(ttls);
  order.timeout_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(options_.answer_timeout).count());
  open_.emplace(order.order, std::move(open));
  return AddressedProbe{agent, std::move(order)};
}

bool LinkFailureProbes::LeadsElsewhere(const Open& open, std::uint16_t port) const {
  const auto source = state_.paths.FindAttachment(open.key.source);
  const auto destination = state_.paths.FindAttachment(open.key.destination);
  const auto answers = open.answers.find(port);
  if (!source || !destination || answers == open.answers.end()) return false;
  const auto paths = state_.paths.Between(source->leaf, destination->leaf);
  const auto path = PathOfAnswers(state_.topology, paths, answers->second);
  return path && *path != open.path;
}

std::optional<LinkFailureProbes::Verdict> LinkFailureProbes::TakeAnswer(
    AgentId from, const wire::ProbeReport& report) {
  const auto found = open_.find(report.order);
  if (found == open_.end() || found->second.agent != from) return std::nullopt;
  Open& asked = found->second;
  for (const wire::ProbeAnswer& answer : report.answers) {
    const std::uint16_t port = answer.source_port;
    if (!asked.over.contains(port) && !asked.beside.contains(port)) continue;
    auto& answers = asked.answers[port];
    if (answers.size() < asked.ttls) answers.push_back(answer);
  }
  if (!report.done) return std::nullopt;
  Open open = std::move(asked);
  open_.erase(found);
  std::erase_if(open.over, [&](std::uint16_t port) { return LeadsElsewhere(open, port); });
  if (open.over.empty()) return std::nullopt;
  const auto settle = [&](bool dead) {
    const auto suspicion = suspicions_.find(open.suspect);
    if (suspicion != suspicions_.end()) suspicion->second.until = suspicion->second.asked;
    return Verdict{open.links, dead};
  };
  const auto is_answered = [&](std::uint16_t port) {
    const auto answers = open.answers.find(port);
    return answers != open.answers.end() &&
           std::any_of(answers->second.begin(), answers->second.end(),
                       [&](const auto& answer) { return answer.ttl == open.last_ttl; });
  };
  if (std::any_of(open.over.begin(), open.over.end(), is_answered)) {
    return settle(/*dead=*/false);
  }
  if (std::all_of(open.beside.begin(), open.beside.end(), is_answered)) {
    return settle(/*dead=*/true);
  }
  return std::nullopt;
}

}  // namespace espalier::controller
