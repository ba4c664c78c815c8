#include "controller/discovery/address_traits.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "controller/discovery/discovered_fabric.h"

namespace espalier::discovery {
namespace {

// Fewer answers may all have come by one of several switches.
constexpr std::size_t kLeastSeen = 8;

// The number of the highest hop that answered, over traces of one pair; with the destination's own
// answer the number of switches.
std::size_t LengthOf(std::span<const CleanTrace* const> traces) {
  std::size_t longest = 0;
  for (const CleanTrace* trace : traces) {
    if (trace->arrived) return trace->hops;
    for (std::size_t hop = 0; hop < kMostHops; ++hop) {
      if (trace->Has(hop)) longest = std::max(longest, hop + 1);
    }
  }
  return longest;
}

IpAddress WithLastBits(const IpAddress& address, std::uint8_t flipped) {
  IpAddress::Bytes bytes = address.bytes();
  bytes.back() = static_cast<std::uint8_t>(bytes.back() ^ flipped);
  return IpAddress(bytes);
}
IpAddress MateOf31(const IpAddress& address) { return WithLastBits(address, 1); }
// None if the address is the first or last of its network.
std::optional<IpAddress> MateOf30(const IpAddress& address) {
  const unsigned last = address.bytes().back() & 3U;
  if (last == 0 || last == 3) return std::nullopt;
  return WithLastBits(address, 3);
}

}  // namespace

std::vector<CleanTrace> CleanTraces(const ProbeEvidence& evidence,
                                    std::vector<std::string>& contradictions) {
  std::vector<CleanTrace> clean;
  std::map<std::pair<EndpointIndex, EndpointIndex>, std::size_t> lengths;  // in switches
  std::set<std::string> repeated;
  std::set<std::string> hosts;
  for (const Trace& trace : evidence.traces()) {
    CleanTrace next{.trace = &trace};
    const IpAddress& target = evidence.endpoints()[trace.destination].address;
    std::set<IpAddress> seen;
    bool is_clean = true;
    for (std::size_t hop = 0; hop < kMostHops && !next.arrived; ++hop) {
      if (!trace.IsAnswered(hop)) continue;
      const IpAddress& responder = trace.responders[hop];
      if (responder == target) {
        next.arrived = true;
        next.hops = hop;
      } else if (evidence.FindEndpoint(responder) != ProbeEvidence::kMostEndpoints) {
        hosts.insert(responder.ToString());
        is_clean = false;
      } else if (!seen.insert(responder).second) {
        repeated.insert(responder.ToString());
        is_clean = false;
      }
    }
    if (!is_clean) continue;
    clean.push_back(next);
    if (!next.arrived) continue;
    const auto [known, is_new] = lengths.try_emplace({trace.source, trace.destination}, next.hops);
    if (known->second != next.hops) known->second = kMostHops;  // paths of several lengths
  }
  for (CleanTrace& trace : clean) {
    const auto known = lengths.find({trace.trace->source, trace.trace->destination});
    if (trace.arrived || known == lengths.end() || known->second == kMostHops) continue;
    trace.arrived = true;
    trace.hops = known->second;
  }
  if (!repeated.empty()) {
    contradictions.push_back(fmt::format(
        "{} answers at two hops of one path: routes form a loop, an address is translated, or "
        "several switches have it (correct it, or add a file that has the links)",
        NameSome({repeated.begin(), repeated.end()})));
  }
  if (!hosts.empty()) {
    contradictions.push_back(
        fmt::format("{} is the address of a host, but answers on paths between others: a host "
                    "forwards packets, or an address is translated or used twice",
                    NameSome({hosts.begin(), hosts.end()})));
  }
  return clean;
}

EndpointGroups::EndpointGroups(std::size_t endpoints, std::span<const CleanTrace> traces) {
  group_.resize(endpoints);
  std::iota(group_.begin(), group_.end(), EndpointIndex{0});
  const auto root = [&](EndpointIndex at) {
    while (group_[at] != at) at = group_[at] = group_[group_[at]];
    return at;
  };
  std::set<std::pair<EndpointIndex, EndpointIndex>> together;
  std::set<std::pair<EndpointIndex, EndpointIndex>> apart;
  for (const CleanTrace& trace : traces) {
    const auto pair = std::minmax(trace.trace->source, trace.trace->destination);
    if (trace.arrived && trace.hops == 1) together.insert(pair);
    if (trace.Has(1)) apart.insert(pair);
  }
  for (const auto& pair : together) {
    if (apart.contains(pair)) {
      doubtful_.push_back(pair);
      continue;
    }
    const EndpointIndex a = root(pair.first);
    const EndpointIndex b = root(pair.second);
    group_[std::max(a, b)] = std::min(a, b);
  }
  for (EndpointIndex i = 0; i < group_.size(); ++i) group_[i] = root(i);
  for (const auto& [a, b] : apart) {
    if (together.contains({a, b})) continue;
    if (group_[a] == group_[b]) {
      doubtful_.emplace_back(a, b);
    } else {
      apart_.insert(std::minmax(group_[a], group_[b]));
    }
  }
}

AddressTraits::AddressTraits(const ProbeEvidence& evidence, std::span<const CleanTrace> traces,
                             const EndpointGroups& groups)
    : evidence_(evidence) {
  for (const CleanTrace& trace : traces) {
    for (std::size_t hop = 1; hop < kMostHops; ++hop) {
      if (trace.Has(hop)) answered_.insert(trace.At(hop));
    }
  }
  FindShared(traces, groups);
  FindWholeSwitches(traces);
  FindMisleading(traces);
  CountMates();
}

// Endpoints behind different switches that get an answer of one address at TTL 2: it stands for no
// single link. If most of such addresses are like that, switches answer with one address each;
// else these few are used twice.
void AddressTraits::FindShared(std::span<const CleanTrace> traces, const EndpointGroups& groups) {
  std::map<EndpointIndex, std::set<IpAddress>> first;
  std::map<EndpointIndex, std::set<IpAddress>> second;
  std::set<IpAddress> all;
  for (const CleanTrace& trace : traces) {
    const EndpointIndex group = groups.GroupOf(trace.trace->source);
    if (trace.Has(0)) first[group].insert(trace.At(0));
    if (!trace.Has(1)) continue;
    second[group].insert(trace.At(1));
    all.insert(trace.At(1));
  }
  std::set<IpAddress> shared;
  const auto intersect = [](const std::set<IpAddress>& a, const std::set<IpAddress>& b,
                            std::set<IpAddress>& into) {
    std::ranges::set_intersection(a, b, std::inserter(into, into.end()));
  };
  for (const auto& [a, b] : groups.apart()) {
    intersect(second[a], second[b], shared);
    intersect(first[a], first[b], gateways_);
  }
  const bool is_usual = shared.size() * 2 > all.size();
  for (const IpAddress& address : shared) {
    kinds_[address] = is_usual ? AddressKind::kWholeSwitch : AddressKind::kUsedTwice;
  }
}

// Beyond the second hop, an address that different switches lead to, each of which has one address,
// is one of a whole switch, too.
void AddressTraits::FindWholeSwitches(std::span<const CleanTrace> traces) {
  for (std::size_t hop = 2; hop < kMostHops; ++hop) {
    std::map<IpAddress, std::set<IpAddress>> before;
    for (const CleanTrace& trace : traces) {
      if (!trace.Has(hop) || !trace.Has(hop - 1)) continue;
      if (KindOf(trace.At(hop - 1)) != AddressKind::kWholeSwitch) continue;
      before[trace.At(hop)].insert(trace.At(hop - 1));
    }
    for (const auto& [address, switches] : before) {
      if (switches.size() > 1) kinds_.try_emplace(address, AddressKind::kWholeSwitch);
    }
  }
}

void AddressTraits::FindMisleading(std::span<const CleanTrace> traces) {
  std::map<Pair, std::vector<const CleanTrace*>> pairs;
  for (const CleanTrace& trace : traces) {
    pairs[{trace.trace->source, trace.trace->destination}].push_back(&trace);
  }
  for (const auto& [pair, of_pair] : pairs) JudgePair(of_pair);
}

void AddressTraits::JudgePair(std::span<const CleanTrace* const> traces) {
  const std::size_t length = LengthOf(traces);
  if (length < 3) return;
  const std::size_t top = (length - 1) / 2;  // the hop of the top switch
  for (std::size_t hop = 1; hop + 1 < length; ++hop) {
    Relation all;
    std::map<IpAddress, Relation> by_second;
    for (const CleanTrace* trace : traces) {
      if (!trace->Has(hop) || !trace->Has(hop + 1)) continue;
      const auto kind = [&](std::size_t at) { return KindOf(trace->At(at)); };
      if (kind(hop) != AddressKind::kInterface) continue;
      if (kind(hop + 1) != AddressKind::kInterface) continue;
      all.emplace_back(trace->At(hop), trace->At(hop + 1));
      const bool is_below_second = hop == top && hop > 1 && trace->Has(1);
      if (is_below_second) by_second[trace->At(1)].push_back(all.back());
    }
    // Behind the second hop, all that is reached through one of its switches may share a plane.
    JudgeRelation(all, hop == top && hop == 1 ? 1 : 2);
    for (const auto& [second, relation] : by_second) JudgeRelation(relation, 1);
  }
}

// Several addresses at a hop that all lead to the same ones at the next hop, of which there are at
// least so many: the latter are misleading.
void AddressTraits::JudgeRelation(const Relation& relation, std::size_t least_ends) {
  std::map<IpAddress, IpAddress> parent;    // over addresses of the hop
  std::map<IpAddress, IpAddress> first_of;  // one that leads to each at the next hop
  const auto root = [&](IpAddress at) {
    while (parent.at(at) != at) at = parent.at(at);
    return at;
  };
  for (const auto& [from, to] : relation) {
    parent.try_emplace(from, from);
    const auto [known, is_new] = first_of.try_emplace(to, from);
    if (!is_new) parent[root(from)] = root(known->second);
  }
  std::set<IpAddress> roots;
  for (const auto& [address, ignored] : parent) roots.insert(root(address));
  if (relation.size() < kLeastSeen || parent.size() < 2) return;
  if (roots.size() != 1 || first_of.size() < least_ends) return;
  for (const auto& [to, ignored] : first_of) kinds_[to] = AddressKind::kMisleading;
}

void AddressTraits::CountMates() {
  for (const IpAddress& address : answered_) {
    if (KindOf(address) != AddressKind::kInterface) continue;
    if (IsAnswered(MateOf31(address))) ++mates_of_31_;
    if (IsAnsweredOf30(address)) ++mates_of_30_;
  }
}

bool AddressTraits::IsUsable(const IpAddress& mate) const {
  const AddressKind kind = KindOf(mate);
  return (kind == AddressKind::kInterface || kind == AddressKind::kMisleading) &&
         evidence_.FindEndpoint(mate) == ProbeEvidence::kMostEndpoints;
}

bool AddressTraits::IsAnswered(const IpAddress& mate) const {
  return answered_.contains(mate) && IsUsable(mate);
}

// Neighbouring networks of 31 bits look like one of 30 in which both ends have other mates.
bool AddressTraits::IsAnsweredOf30(const IpAddress& address) const {
  const auto mate = MateOf30(address);
  return mate && IsAnswered(*mate) && !answered_.contains(MateOf31(address)) &&
         !answered_.contains(MateOf31(*mate));
}

AddressKind AddressTraits::KindOf(const IpAddress& address) const {
  const auto found = kinds_.find(address);
  return found == kinds_.end() ? AddressKind::kInterface : found->second;
}

std::optional<IpAddress> AddressTraits::MateOf(const IpAddress& address) const {
  if (KindOf(address) != AddressKind::kInterface) return std::nullopt;
  if (IsAnswered(MateOf31(address))) return MateOf31(address);
  if (IsAnsweredOf30(address)) return MateOf30(address);
  if (mates_of_31_ == 0 && mates_of_30_ == 0) return std::nullopt;
  const auto usual =
      mates_of_31_ >= mates_of_30_ ? std::optional(MateOf31(address)) : MateOf30(address);
  return usual && IsUsable(*usual) ? usual : std::nullopt;
}

void AddressTraits::Report(std::vector<std::string>& missing,
                           std::vector<std::string>& contradictions) const {
  std::map<AddressKind, std::vector<std::string>> names;
  for (const auto& [address, kind] : kinds_) names[kind].push_back(address.ToString());
  if (const auto& whole = names[AddressKind::kWholeSwitch]; !whole.empty()) {
    missing.push_back(fmt::format(
        "{} switches answer with one address on all links, so the ports and the number of parallel "
        "links between them stay unknown (add a file of theirs): {}",
        whole.size(), NameSome(whole)));
  }
  if (const auto& misleading = names[AddressKind::kMisleading]; !misleading.empty()) {
    missing.push_back(fmt::format(
        "{} addresses answer for whichever link, as switches that answer by the link on which the "
        "error leaves (or as one switch with parallel links to both sides): which switches they "
        "connect stays unknown (add a file that has the links): {}",
        misleading.size(), NameSome(misleading)));
  }
  if (const auto& twice = names[AddressKind::kUsedTwice]; !twice.empty()) {
    contradictions.push_back(fmt::format(
        "{} answers for links of different switches: an address used twice, or of a switch that "
        "answers with one address on all links (give each link its own)",
        NameSome(twice)));
  }
  if (gateways_.empty()) return;
  std::vector<std::string> gateways;
  for (const IpAddress& address : gateways_) gateways.push_back(address.ToString());
  missing.push_back(
      fmt::format("{} answers as the first switch of hosts that are behind different switches, so "
                  "it identifies none of them",
                  NameSome(gateways)));
}

}  // namespace espalier::discovery
