#include "controller/discovery/probe_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "common/fabric/ecmp/path_map.h"
#include "controller/discovery/stop_rule.h"

namespace espalier::discovery {
namespace {

constexpr std::size_t kFirstPorts = 4;  // of a pair of which nothing is known

std::vector<std::uint8_t> Ttls(std::size_t first, std::size_t last) {
  std::vector<std::uint8_t> ttls;
  for (std::size_t ttl = first; ttl <= last; ++ttl) ttls.push_back(static_cast<std::uint8_t>(ttl));
  return ttls;
}

// A distance between leaves, about half of all, such that steps of it lead to every leaf: their
// traces then connect all leaves.
std::size_t RingOffset(std::size_t leaves) {
  std::size_t offset = std::max<std::size_t>(leaves / 2, 1);
  while (std::gcd(offset, leaves) != 1) ++offset;
  return offset;
}

}  // namespace

ProbeChoice::ProbeChoice(const Options& options) : options_(options) {
  ports_.resize(fabric::kRocePortCount);
  std::iota(ports_.begin(), ports_.end(), fabric::kFirstRocePort);
  std::mt19937_64 random(options.seed);
  for (std::size_t i = ports_.size(); i > 1; --i) std::swap(ports_[i - 1], ports_[random() % i]);
}

std::vector<Ask> ProbeChoice::NextRound(const ProbeEvidence& evidence,
                                        const DiscoveredFabric& fabric) {
  asks_.clear();
  if (evidence.endpoints().size() < 2) return {};
  Scan(evidence);
  PlaceEndpoints(evidence);
  if (!asks_.empty()) return std::move(asks_);
  std::size_t counted = 0;
  for (const NextHopChoice& choice : fabric.choices) counted += choice.answers;
  stalls_ = counted > counted_answers_ ? 0 : stalls_ + 1;
  counted_answers_ = counted;
  const double share = static_cast<double>(evidence.answers()) /
                       static_cast<double>(std::max<std::uint64_t>(evidence.probes(), 1));
  if (stalls_ <= kMostStalls) TraceLeaves(fabric, std::clamp(share, 0.25, 1.0));
  if (asks_.empty() && stalls_ <= kMostStalls) ConnectLeaves(fabric);
  ConfirmGroups(fabric);
  return std::move(asks_);
}

void ProbeChoice::Scan(const ProbeEvidence& evidence) {
  by_address_.resize(evidence.endpoints().size());
  std::iota(by_address_.begin(), by_address_.end(), EndpointIndex{0});
  std::ranges::sort(by_address_, {},
                    [&](EndpointIndex i) { return evidence.endpoints()[i].address; });
  has_first_.clear();
  has_second_.clear();
  pairs_.clear();
  for (const Trace& trace : evidence.traces()) {
    if (trace.IsAnswered(0)) has_first_.insert(trace.source);
    if (trace.IsAnswered(1)) has_second_.insert(trace.source);
    Known& pair = pairs_[{trace.source, trace.destination}];
    pair.asked += trace.hops[2] == Trace::Hop::kNotAsked ? 0 : 1;
    const IpAddress& target = evidence.endpoints()[trace.destination].address;
    for (std::size_t hop = 0; hop < kMostHops; ++hop) {
      if (!trace.IsAnswered(hop)) continue;
      const bool is_target = trace.responders[hop] == target;
      if (is_target && (!pair.arrived || hop < pair.length)) {
        pair.arrived = true;
        pair.length = hop;
      } else if (!is_target && !pair.arrived) {
        pair.length = std::max(pair.length, hop + 1);
      }
    }
  }
}

void ProbeChoice::PlaceEndpoints(const ProbeEvidence& evidence) {
  const std::size_t count = evidence.endpoints().size();
  for (std::size_t i = 0; i < count; ++i) {
    const EndpointIndex at = by_address_[i];
    const EndpointIndex near = by_address_[(i + 1) % count];
    const EndpointIndex far = by_address_[(i + std::max<std::size_t>(count / 2, 1)) % count];
    std::vector<std::uint8_t> ttls;
    if (!has_first_.contains(at) && first_tries_[at]++ < kTries) ttls.push_back(1);
    const bool needs_second = !has_second_.contains(at);
    if (needs_second && near_tries_[at] < kTries / 2) {
      ++near_tries_[at];
      ttls.push_back(2);
    } else if (needs_second && far_tries_[at]++ < kTries) {
      Add(at, far, {2});
    }
    if (!ttls.empty()) Add(at, near, std::move(ttls));
  }
}

std::vector<ProbeChoice::Leaf> ProbeChoice::LeavesOf(const DiscoveredFabric& fabric) const {
  std::vector<Leaf> leaves;
  std::map<SwitchIndex, std::size_t> index;
  for (const EndpointIndex endpoint : by_address_) {
    const auto at = fabric.nics[endpoint].at;
    if (!at) continue;
    const auto [known, is_new] = index.try_emplace(*at, leaves.size());
    if (is_new) leaves.push_back({*at, {}});
    leaves[known->second].endpoints.push_back(endpoint);
  }
  return leaves;
}

std::map<SwitchIndex, std::size_t> ProbeChoice::NeedsOf(const DiscoveredFabric& fabric,
                                                        const std::vector<Leaf>& leaves) const {
  std::map<SwitchIndex, const NextHopChoice*> choices;
  for (const NextHopChoice& choice : fabric.choices) choices[choice.at] = &choice;
  std::size_t choosing = choices.size();
  for (const Leaf& leaf : leaves) choosing += choices.contains(leaf.at) ? 0 : 1;
  const double alpha = (1 - options_.confidence) / static_cast<double>(choosing);
  std::map<SwitchIndex, std::size_t> needs;
  for (const Leaf& leaf : leaves) {
    if (!choices.contains(leaf.at)) needs[leaf.at] = AnswersNeeded(1, alpha);
  }
  for (const NextHopChoice& choice : fabric.choices) {
    const std::size_t needed = AnswersNeeded(choice.next_hops, alpha);
    if (choice.answers >= needed || choice.next_hops > kMostNextHops) continue;
    const std::size_t lacking = needed - choice.answers;
    for (const SwitchIndex leaf : choice.leaves) {
      // A flow of the leaf takes this switch in as many cases as it has next hops.
      const auto own = choices.find(leaf);
      const std::size_t spread =
          leaf == choice.at || own == choices.end() ? 1 : own->second->next_hops;
      const std::size_t flows =
          (lacking * spread + choice.leaves.size() - 1) / choice.leaves.size();
      needs[leaf] = std::max(needs[leaf], flows);
    }
  }
  return needs;
}

std::vector<std::size_t> ProbeChoice::LeavesToTrace(
    const std::vector<Leaf>& leaves, const std::map<SwitchIndex, std::size_t>& needs) {
  std::vector<std::size_t> due;
  std::vector<std::size_t> fresh;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const bool is_started = std::ranges::any_of(
        leaves[i].endpoints, [&](EndpointIndex each) { return tracers_.contains(each); });
    if (!is_started) fresh.push_back(i);
    if (is_started && needs.contains(leaves[i].at)) due.push_back(i);
  }
  if (!due.empty() || fresh.empty()) return due;
  // With about one endpoint each, these may be parts of few leaves, which a trace from one of them
  // joins. They are taken in steps, spread over the addresses.
  const bool are_parts = leaves.size() * 2 > by_address_.size();
  const std::size_t step = are_parts ? (fresh.size() + wave_ - 1) / wave_ : 1;
  wave_ *= 2;
  for (std::size_t i = 0; i < fresh.size(); i += step) {
    tracers_.insert(leaves[fresh[i]].endpoints.front());
    due.push_back(fresh[i]);
  }
  return due;
}

// The endpoints between which the leaf is traced: from the one that has seen the longest paths, to
// the same one as long as that is elsewhere; else to that of a distant leaf whose answers have not
// failed to come.
std::optional<ProbeChoice::Pair> ProbeChoice::PairOf(const std::vector<Leaf>& leaves,
                                                     std::size_t leaf) const {
  const auto& own = leaves[leaf].endpoints;
  std::optional<Pair> best;
  std::size_t longest = 2;
  for (const EndpointIndex source : own) {
    if (!tracers_.contains(source)) continue;
    for (auto pair = pairs_.lower_bound({source, 0});
         pair != pairs_.end() && pair->first.first == source; ++pair) {
      const bool is_elsewhere = std::ranges::find(own, pair->first.second) == own.end();
      if (!is_elsewhere || pair->second.asked == 0 || pair->second.length <= longest) continue;
      longest = pair->second.length;
      best = pair->first;
    }
  }
  if (best) return best;
  const auto tracer =
      std::ranges::find_if(own, [&](EndpointIndex each) { return tracers_.contains(each); });
  const std::size_t offset = RingOffset(leaves.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(leaves.size() - 1, kTries); ++i) {
    const std::size_t other = (leaf + offset + i) % leaves.size();
    if (other == leaf) continue;
    const Pair pair{*tracer, leaves[other].endpoints.front()};
    const auto known = pairs_.find(pair);
    if (known == pairs_.end() || known->second.asked < 2 * kFirstPorts) return pair;
  }
  return std::nullopt;
}

void ProbeChoice::TraceLeaves(const DiscoveredFabric& fabric, double answered_share) {
  const std::vector<Leaf> leaves = LeavesOf(fabric);
  if (leaves.size() < 2) return;
  const auto needs = NeedsOf(fabric, leaves);
  for (const std::size_t leaf : LeavesToTrace(leaves, needs)) {
    const auto pair = PairOf(leaves, leaf);
    if (!pair) continue;
    const auto known = pairs_.find(*pair);
    const std::size_t length =
        known == pairs_.end() || known->second.asked == 0 ? 0 : known->second.length;
    if (length < 3) {
      for (std::size_t i = 0; i < kFirstPorts; ++i) {
        Add(pair->first, pair->second, Ttls(1, kMostTiers));
      }
      continue;
    }
    const auto need = needs.find(leaves[leaf].at);
    if (need == needs.end()) continue;
    const auto asked =
        static_cast<std::size_t>(std::ceil(static_cast<double>(need->second) / answered_share));
    // At most as many as before, since they may show that leaves are one.
    const std::size_t most =
        std::min(std::max<std::size_t>(8, known->second.asked),
                 kMostPortsOfPair - std::min(kMostPortsOfPair, known->second.asked));
    for (std::size_t i = 0; i < std::min(asked, most); ++i) {
      Add(pair->first, pair->second, Ttls(2, length));
    }
  }
}

// Traces between two leaves show which addresses of their upper switches are of one switch. Where
// the traces of all leaves fall into parts without a trace from one to another, as leaves that
// became one may leave behind, a leaf of each part is traced to the first part.
void ProbeChoice::ConnectLeaves(const DiscoveredFabric& fabric) {
  const std::vector<Leaf> leaves = LeavesOf(fabric);
  std::map<EndpointIndex, std::size_t> leaf_of;
  std::map<SwitchIndex, std::size_t> needed;
  for (const NextHopChoice& choice : fabric.choices) {
    needed[choice.at] = AnswersNeeded(choice.next_hops, 1 - options_.confidence);
  }
  std::vector<std::size_t> part(leaves.size());
  std::iota(part.begin(), part.end(), std::size_t{0});
  const auto root = [&](std::size_t at) {
    while (part[at] != at) at = part[at] = part[part[at]];
    return at;
  };
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    for (const EndpointIndex endpoint : leaves[i].endpoints) leaf_of[endpoint] = i;
  }
  for (const auto& [pair, known] : pairs_) {
    const auto from = leaf_of.find(pair.first);
    const auto to = leaf_of.find(pair.second);
    if (from == leaf_of.end() || to == leaf_of.end() || known.length < 3) continue;
    if (known.asked < needed[leaves[from->second].at]) continue;
    const std::size_t a = root(from->second);
    const std::size_t b = root(to->second);
    part[std::max(a, b)] = std::min(a, b);
  }
  for (std::size_t i = 1; i < leaves.size(); ++i) {
    const std::size_t lacking = needed[leaves[i].at];
    if (root(i) != i || lacking == 0) continue;
    const Pair pair{leaves[i].endpoints.front(), leaves.front().endpoints.front()};
    const auto known = pairs_.find(pair);
    const std::size_t asked = known == pairs_.end() ? 0 : known->second.asked;
    const bool is_known = asked > 0 && known->second.length >= 3;
    if (!is_known && asked >= 2 * kFirstPorts) continue;  // nothing arrives there
    const std::size_t count = is_known ? lacking - std::min(asked, lacking) : kFirstPorts;
    for (std::size_t n = 0; n < count; ++n) {
      Add(pair.first, pair.second, is_known ? Ttls(2, known->second.length) : Ttls(1, kMostTiers));
    }
  }
}

void ProbeChoice::ConfirmGroups(const DiscoveredFabric& fabric) {
  for (const Leaf& leaf : LeavesOf(fabric)) {
    const EndpointIndex first = leaf.endpoints.front();
    std::set<std::size_t> groups = {fabric.nics[first].group};
    for (const EndpointIndex endpoint : leaf.endpoints) {
      const std::size_t group = fabric.nics[endpoint].group;
      if (!groups.insert(group).second) continue;
      if (confirmations_[{fabric.nics[first].group, group}]++ < kTries / 2)
        Add(endpoint, first, {2});
    }
  }
}

std::uint16_t ProbeChoice::NextPort(EndpointIndex source, EndpointIndex destination) {
  const auto [next, is_new] = next_port_.try_emplace({source, destination}, 0);
  if (is_new) next->second = (source * 7'919U + destination * 104'729U) % ports_.size();
  return ports_[next->second++ % ports_.size()];
}

void ProbeChoice::Add(EndpointIndex source, EndpointIndex destination,
                      std::vector<std::uint8_t> ttls) {
  if (source == destination) return;
  asks_.push_back({source, destination, NextPort(source, destination), std::move(ttls)});
}

}  // namespace espalier::discovery
