#include "controller/links/link_failure_probes.h"

#include <algorithm>
#include <iterator>
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
// Of several paths over a link, so many are probed: all of them are dead if the link is.
constexpr std::size_t kPathsOver = 2;

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
    const auto [entry, is_new] = suspicions_.try_emplace(link, suspicion);
    if (is_new) AskAbout(entry->second, link, now, probes);
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
        AskAbout(suspicion, link, now, probes);
      }
      ++entry;
    }
  }
  return probes;
}

void LinkFailureProbes::AskAbout(Suspicion& suspicion, LinkId link, TimePoint now,
                                 std::vector<AddressedProbe>& probes) {
  std::set<AgentId> asked;
  std::set<fabric::NodeId> leaves;  // of those asked
  const std::size_t round = suspicion.rounds++;
  // First pairs that were not asked yet, of other leaves, then at least from another leaf, then
  // any; at last those that were asked before.
  enum class Pass { kNewLeaves, kNewSource, kNewPair, kAll };
  for (const Pass pass : {Pass::kNewLeaves, Pass::kNewSource, Pass::kNewPair, Pass::kAll}) {
    for (const auto& [key, slots] : state_.flow_paths.pairs()) {
      if (asked.size() >= options_.hosts) return;
      const auto agent = agent_of_(key.source);
      if (!agent || *agent == suspicion.reporter || asked.contains(*agent)) continue;
      if (pass != Pass::kAll && suspicion.tried.contains(key)) continue;
      const Flow& flow = state_.flows.At(*slots.begin());
      const bool is_of_new_source = !leaves.contains(flow.source_leaf);
      if (pass <= Pass::kNewSource && !is_of_new_source) continue;
      if (pass == Pass::kNewLeaves && leaves.contains(flow.destination_leaf)) continue;
      const auto paths = state_.paths.Between(flow.source_leaf, flow.destination_leaf);
      auto probe = MakeProbe(*agent, key, paths, link, round, now);
      if (!probe) continue;
      asked.insert(*agent);
      leaves.insert({flow.source_leaf, flow.destination_leaf});
      if (suspicion.tried.size() < kMaxTried) suspicion.tried.insert(key);
      probes.push_back(std::move(*probe));
    }
  }
}

LinkFailureProbes::KnownPorts LinkFailureProbes::FindPorts(const PortKey& key,
                                                           std::span<const Path> paths,
                                                           LinkId link) const {
  KnownPorts known;
  const bool has_link = std::any_of(paths.begin(), paths.end(),
                                    [&](const Path& path) { return GoesOver(path, link); });
  if (!has_link) return known;
  for (const fabric::PortEntry& entry : state_.path_map.Ports(key)) {
    if (entry.trust == fabric::PortTrust::kReverify) continue;
    const Path& path = paths[entry.path.Index()];
    if (!fabric::IsAlive(state_.topology, path) || path.hops.front().link == link) continue;
    (GoesOver(path, link) ? known.over : known.beside)[entry.path].push_back(entry.port);
  }
  return known;
}

std::vector<PathIndex> LinkFailureProbes::PathsBeside(const PortsByPath& ports,
                                                      std::span<const Path> paths,
                                                      const Path& suspect, std::size_t round) {
  std::vector<std::pair<std::ptrdiff_t, PathIndex>> by_shared;
  for (const auto& [index, known] : ports) {
    const Path& path = paths[index.Index()];
    const auto shared = std::ranges::count_if(
        path.hops, [&](fabric::DirectedLink hop) { return GoesOver(suspect, hop.link); });
    by_shared.emplace_back(-shared, index);
  }
  std::ranges::sort(by_shared);
  std::vector<PathIndex> chosen = {by_shared.front().second};
  const std::size_t others = by_shared.size() - 1;
  if (others > 0) chosen.push_back(by_shared[1 + round % others].second);
  return chosen;
}

std::optional<LinkFailureProbes::AddressedProbe> LinkFailureProbes::MakeProbe(
    AgentId agent, const PortKey& key, std::span<const Path> paths, LinkId link, std::size_t round,
    TimePoint now) {
  const KnownPorts known = FindPorts(key, paths, link);
  if (known.over.empty() || known.beside.empty()) return std::nullopt;
  Open open{.agent = agent, .suspect = link, .key = key};
  // Other paths over the link each time.
  auto suspect =
      std::next(known.over.begin(), static_cast<std::ptrdiff_t>(round % known.over.size()));
  const Path& path = paths[suspect->first.Index()];
  for (std::size_t i = 0; i < std::min(known.over.size(), kPathsOver); ++i) {
    const auto& [index, ports] = *suspect;
    for (std::size_t j = 0; j < std::min(ports.size(), options_.max_ports); ++j) {
      open.over.emplace(ports[j], index);
    }
    if (++suspect == known.over.end()) suspect = known.over.begin();
  }
  for (const PathIndex beside : PathsBeside(known.beside, paths, path, round)) {
    const auto& ports = known.beside.at(beside);
    for (std::size_t i = 0; i < std::min(ports.size(), options_.max_ports); ++i) {
      open.beside.emplace(ports[i], beside);
    }
  }
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
  for (const auto& [port, over] : open.over) order.source_ports.push_back(port);
  for (const auto& [port, beside] : open.beside) order.source_ports.push_back(port);
  open.ttls = ttls.size();
  order.ttls = std::move(ttls);
  order.timeout_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(options_.answer_timeout).count());
  open_.emplace(order.order, std::move(open));
  return AddressedProbe{agent, std::move(order)};
}

std::span<const Path> LinkFailureProbes::PathsOf(const PortKey& key) const {
  const auto source = state_.paths.FindAttachment(key.source);
  const auto destination = state_.paths.FindAttachment(key.destination);
  if (!source || !destination) return {};
  return state_.paths.Between(source->leaf, destination->leaf);
}

std::optional<PathIndex> LinkFailureProbes::AnsweredPath(const Open& open,
                                                         std::uint16_t port) const {
  const auto answers = open.answers.find(port);
  if (answers == open.answers.end()) return std::nullopt;
  return PathOfAnswers(state_.topology, PathsOf(open.key), answers->second);
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
  std::erase_if(open.over, [&](const auto& over) {
    const auto path = AnsweredPath(open, over.first);
    return path && *path != over.second;
  });
  auto verdict = Judge(open);
  const auto suspicion = suspicions_.find(open.suspect);
  if (verdict && suspicion != suspicions_.end()) suspicion->second.until = suspicion->second.asked;
  return verdict;
}

std::optional<LinkFailureProbes::Verdict> LinkFailureProbes::Judge(const Open& open) const {
  const auto paths = PathsOf(open.key);
  const auto is_known = [&](const auto& port) { return port.second.Index() < paths.size(); };
  if (open.over.empty() || !std::ranges::all_of(open.over, is_known)) return std::nullopt;
  const auto verdict_on = [&](PathIndex over, bool dead) {
    Verdict verdict{.links = {}, .dead = dead, .passed = {}};
    verdict.links.assign(paths[over.Index()].hops.begin(), paths[over.Index()].hops.end());
    return verdict;
  };
  const auto is_answered = [&](std::uint16_t port) {
    const auto answers = open.answers.find(port);
    return answers != open.answers.end() &&
           std::any_of(answers->second.begin(), answers->second.end(),
                       [&](const auto& answer) { return answer.ttl == open.last_ttl; });
  };
  for (const auto& [port, path] : open.over) {
    if (is_answered(port)) return verdict_on(path, /*dead=*/false);
  }
  std::set<PathIndex> silent;  // paths with a port that was not answered
  for (const auto& [port, path] : open.beside) {
    if (!is_answered(port)) silent.insert(path);
  }
  const auto works = [&](const auto& beside) { return !silent.contains(beside.second); };
  const auto answered =
      static_cast<std::size_t>(std::count_if(open.beside.begin(), open.beside.end(), works));
  if (answered < std::min(options_.max_ports, open.beside.size())) return std::nullopt;
  Verdict verdict = verdict_on(open.over.begin()->second, /*dead=*/true);
  for (const auto& beside : open.beside) {
    const auto path = works(beside) ? AnsweredPath(open, beside.first) : std::nullopt;
    if (!path) continue;
    for (const fabric::DirectedLink hop : std::span(paths[path->Index()].hops).subspan(1)) {
      verdict.passed.push_back(hop);
    }
  }
  return verdict;
}

}  // namespace espalier::controller
