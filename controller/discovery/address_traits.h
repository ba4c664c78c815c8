#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/address/ip_address.h"
#include "controller/discovery/probe_evidence.h"

namespace espalier::discovery {

// A trace that is free of contradictions in itself.
struct CleanTrace {
  const Trace* trace = nullptr;
  std::size_t hops = kMostHops;  // so many of the first ones are switches, if it arrived
  bool arrived = false;          // the destination answered this port, or others of the pair

  bool Has(std::size_t hop) const { return hop < hops && trace->IsAnswered(hop); }
  const IpAddress& At(std::size_t hop) const { return trace->responders[hop]; }
};

// The traces in which no address answers at two hops and no host answers in place of a switch.
// Adds a sentence for what is left out. Refers into `evidence`.
std::vector<CleanTrace> CleanTraces(const ProbeEvidence& evidence,
                                    std::vector<std::string>& contradictions);

// Which endpoints share their first switch and which do not, by probes from one to another: at TTL
// 2 either the destination answers or a further switch. Groups of endpoints that share one are
// numbered by one of their endpoints.
class EndpointGroups {
 public:
  EndpointGroups(std::size_t endpoints, std::span<const CleanTrace> traces);

  std::size_t size() const { return group_.size(); }
  EndpointIndex GroupOf(EndpointIndex endpoint) const { return group_[endpoint]; }
  // Pairs of groups that are behind different switches.
  const std::set<std::pair<EndpointIndex, EndpointIndex>>& apart() const { return apart_; }
  // Pairs of endpoints of which probes show both.
  const std::vector<std::pair<EndpointIndex, EndpointIndex>>& doubtful() const { return doubtful_; }

 private:
  std::vector<EndpointIndex> group_;
  std::set<std::pair<EndpointIndex, EndpointIndex>> apart_;
  std::vector<std::pair<EndpointIndex, EndpointIndex>> doubtful_;
};

enum class AddressKind : std::uint8_t {
  kInterface,    // of the interface on which the probe came in: it stands for one link
  kWholeSwitch,  // a switch answers with it on all links (loopback, unnumbered links)
  kUsedTwice,    // several switches answer with it
  kMisleading,   // of the switch, but perhaps of another link than that of the probe
};

// What the addresses that answer stand for.
//
// RFC 1812 (4.3.2.4) has a router answer from the interface by which the error leaves; much
// hardware, and Linux if configured so, answers from the one by which the probe came in. The
// difference shows where paths fan in: an honest address behind the top of the path has one
// predecessor, or as many as there are parallel links, while a misleading one has all of them.
//
// A fabric in which one top switch has parallel links to both sides and no sibling looks the same,
// and is counted as misleading: then links are missing, but none is wrong.
// Complexity: O(traces x hops x log). Deterministic.
class AddressTraits {
 public:
  AddressTraits(const ProbeEvidence& evidence, std::span<const CleanTrace> traces,
                const EndpointGroups& groups);

  AddressKind KindOf(const IpAddress& address) const;
  // Whether hosts behind different switches get it as the answer of their first switch.
  bool IsGateway(const IpAddress& address) const { return gateways_.contains(address); }
  // The other end of the link with this interface, by the length of prefix (31 or 30 bits, 127 or
  // 126) whose mates answer, too; none if there is no such rule, or that is no interface.
  std::optional<IpAddress> MateOf(const IpAddress& address) const;
  // Adds a sentence for each kind of address that is not an interface.
  void Report(std::vector<std::string>& missing, std::vector<std::string>& contradictions) const;

 private:
  using Pair = std::pair<EndpointIndex, EndpointIndex>;
  using Relation = std::vector<std::pair<IpAddress, IpAddress>>;  // at a hop and at the next one

  void FindShared(std::span<const CleanTrace> traces, const EndpointGroups& groups);
  void FindWholeSwitches(std::span<const CleanTrace> traces);
  void FindMisleading(std::span<const CleanTrace> traces);
  void JudgePair(std::span<const CleanTrace* const> traces);
  void JudgeRelation(const Relation& relation, std::size_t least_ends);
  void CountMates();
  bool IsUsable(const IpAddress& mate) const;
  bool IsAnswered(const IpAddress& mate) const;
  bool IsAnsweredOf30(const IpAddress& address) const;

  const ProbeEvidence& evidence_;
  std::set<IpAddress> answered_;  // at TTL 2 and beyond
  std::map<IpAddress, AddressKind> kinds_;
  std::set<IpAddress> gateways_;
  std::size_t mates_of_31_ = 0;
  std::size_t mates_of_30_ = 0;
};

}  // namespace espalier::discovery
