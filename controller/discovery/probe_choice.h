#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "controller/discovery/discovered_fabric.h"
#include "controller/discovery/probe_evidence.h"

namespace espalier::discovery {

// Probes of one source port from one endpoint to another, at these TTLs.
struct Ask {
  EndpointIndex source = 0;
  EndpointIndex destination = 0;
  std::uint16_t port = 0;
  std::vector<std::uint8_t> ttls;
};

// Chooses what to probe next, as Diamond-Miner does (Vermeulen et al., NSDI 2020): rounds of flows
// at all TTLs, then what each switch lacks.
//
// 1. Each endpoint sends to the next one by address at TTL 1 and 2: the first switch answers, and
//    either that neighbour, which is behind the same switch then, or a further switch. Where a
//    neighbour is silent, as RDMA NICs are, a probe to a distant endpoint at TTL 2 follows.
// 2. One endpoint of each leaf sends to one of another leaf from more and more source ports, until
//    each switch has as many answers as the stopping rule asks for. Leaves under a switch share
//    what it lacks.
// 3. Groups of endpoints that only an address puts behind one switch are confirmed by a probe from
//    one to another.
// A fabric of V choosing switches is complete with the stated confidence if each is with (1 -
// confidence) / V.
//
// Deterministic. Complexity of a round: O(traces + endpoints x log). Thread safety: one thread.
class ProbeChoice {
 public:
  struct Options {
    double confidence = 0.99;
    std::uint64_t seed = 1;
  };
  explicit ProbeChoice(const Options& options);

  // What to probe next; empty: nothing more would show anything.
  std::vector<Ask> NextRound(const ProbeEvidence& evidence, const DiscoveredFabric& fabric);

 private:
  static constexpr std::uint8_t kMostTiers = 6;  // TTL of the first probes towards an endpoint
  static constexpr int kTries = 8;               // of a probe that stays unanswered
  // Enough for a switch with kMostNextHops.
  static constexpr std::size_t kMostPortsOfPair = 4'096;
  static constexpr int kMostStalls = 4;  // rounds without an answer that counts

  using Pair = std::pair<EndpointIndex, EndpointIndex>;
  struct Leaf {
    SwitchIndex at = 0;
    std::vector<EndpointIndex> endpoints;  // by address
  };
  struct Known {             // of a pair
    std::size_t asked = 0;   // source ports
    std::size_t length = 0;  // switches on the path
    bool arrived = false;
  };

  void Scan(const ProbeEvidence& evidence);
  void PlaceEndpoints(const ProbeEvidence& evidence);
  void TraceLeaves(const DiscoveredFabric& fabric, double answered_share);
  void ConnectLeaves(const DiscoveredFabric& fabric);
  void ConfirmGroups(const DiscoveredFabric& fabric);
  std::vector<Leaf> LeavesOf(const DiscoveredFabric& fabric) const;
  // The leaves to trace in this round: all, or a few more whenever the earlier ones are complete.
  std::vector<std::size_t> LeavesToTrace(const std::vector<Leaf>& leaves,
                                         const std::map<SwitchIndex, std::size_t>& needs);
  // Source ports that each leaf lacks, by its switch.
  std::map<SwitchIndex, std::size_t> NeedsOf(const DiscoveredFabric& fabric,
                                             const std::vector<Leaf>& leaves) const;
  std::optional<Pair> PairOf(const std::vector<Leaf>& leaves, std::size_t leaf) const;
  std::uint16_t NextPort(EndpointIndex source, EndpointIndex destination);
  void Add(EndpointIndex source, EndpointIndex destination, std::vector<std::uint8_t> ttls);

  const Options options_;
  std::vector<std::uint16_t> ports_;  // all, in random order
  std::map<Pair, std::size_t> next_port_;
  std::map<EndpointIndex, int> first_tries_;
  std::map<EndpointIndex, int> near_tries_;
  std::map<EndpointIndex, int> far_tries_;
  std::map<std::pair<std::size_t, std::size_t>, int> confirmations_;  // by pair of groups
  std::set<EndpointIndex> tracers_;
  std::size_t wave_ = 8;
  std::size_t counted_answers_ = 0;
  int stalls_ = 0;

  // What the traces show, of this round.
  std::vector<EndpointIndex> by_address_;
  std::set<EndpointIndex> has_first_;
  std::set<EndpointIndex> has_second_;
  std::map<Pair, Known> pairs_;
  std::vector<Ask> asks_;
};

}  // namespace espalier::discovery
