#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/base/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/links/link_failure_probes.h"
#include "controller/paths/probe_orders.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Asks hosts whether links that are said to be down, by a word that may be old, carry packets
// after all: a probe whose answers name a path over the link, and that was answered by the switch
// behind it, has passed it. Silence tells nothing. Ports are tried that nobody uses, some others
// each time, as nobody knows what the switches make of them now.
//
// Complexity of Ask: O(nodes + agents) a link, and a few pairs of leaves.
// Thread safety: the controller's loop thread. The state must outlive it.
class LinkRecoveryProbes {
 public:
  using AddressedProbe = LinkFailureProbes::AddressedProbe;

  LinkRecoveryProbes(State& state, LinkFailureProbes::AgentOf agent_of)
      : state_(state), agent_of_(std::move(agent_of)) {}

  // What to ask of whom about these links, each of them every few seconds.
  std::vector<AddressedProbe> Ask(std::span<const fabric::LinkId> links, TimePoint now);
  // The link that was found to carry packets, if this tells so; once a question.
  std::optional<fabric::LinkId> TakeAnswer(AgentId from, const wire::ProbeReport& report);

 private:
  struct Open {
    AgentId agent;
    fabric::LinkId link;
    fabric::NodeId source_leaf;
    fabric::NodeId destination_leaf;
    std::set<std::uint16_t> ports;
    std::set<std::uint8_t> ttls;
    std::map<std::uint16_t, std::vector<wire::ProbeAnswer>> answers;  // by port
    TimePoint deadline;
  };
  struct Asked {
    TimePoint last;
    std::uint32_t times = 0;
  };
  struct Pair {
    AgentId agent;
    fabric::NodeId source;       // NIC
    fabric::NodeId destination;  // NIC
    fabric::NodeId source_leaf;
    fabric::NodeId destination_leaf;
  };

  std::optional<AddressedProbe> MakeQuestion(fabric::LinkId link, std::uint32_t times,
                                             TimePoint now);
  // Two NICs between which a path goes over the link; others each time.
  std::optional<Pair> FindPair(fabric::LinkId link, std::uint32_t times);

  State& state_;
  LinkFailureProbes::AgentOf agent_of_;
  std::map<std::uint64_t, Open> open_;  // by the order's number
  std::map<fabric::LinkId, Asked> asked_;
  ProbeNumbers numbers_{ProbeOwner::kLinkRecovery};
};

}  // namespace espalier::controller
