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

// Probes links that are down and may carry packets again: their down state was restored from the
// store and may be stale, or they are due to be used again. A probe has passed the link if its
// answers name a path over the link and the switch behind the link has answered. Silence proves
// nothing. Each round tries the ports that led over the link before, and other unused ones, because
// it is unknown which paths the switches now choose for them.
//
// Complexity of Ask: O(nodes + agents) per link, and a few pairs of leaves.
// Thread safety: the controller's loop thread. The state must outlive it.
class LinkRecoveryProbes {
 public:
  using AddressedProbe = LinkFailureProbes::AddressedProbe;

  LinkRecoveryProbes(State& state, LinkFailureProbes::AgentOf agent_of)
      : state_(state), agent_of_(std::move(agent_of)) {}

  // Some agent is at the start of a path over the link.
  bool CanProbe(fabric::LinkId link) { return FindPair(link, 0).has_value(); }
  // The probes to order for these links, each of which is probed about once a second.
  std::vector<AddressedProbe> Ask(std::span<const fabric::LinkId> links, TimePoint now);
  // The link that the report shows to carry packets, if any; once for each order.
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

  std::optional<AddressedProbe> MakeProbe(fabric::LinkId link, std::uint32_t times, TimePoint now);
  // Two NICs with a path over the link between them, different ones in each round.
  std::optional<Pair> FindPair(fabric::LinkId link, std::uint32_t times);

  State& state_;
  LinkFailureProbes::AgentOf agent_of_;
  std::map<std::uint64_t, Open> open_;  // by the order's number
  std::map<fabric::LinkId, Asked> asked_;
  ProbeNumbers numbers_{ProbeOwner::kLinkRecovery};
};

}  // namespace espalier::controller
