#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/base/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/paths/probe_orders.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

struct LinkFailureProbesOptions {
  std::size_t hosts = 2;        // hosts that probe a link
  std::size_t max_ports = 3;    // ports that each host tries over the link, and around it
  std::size_t max_orders = 16;  // unanswered orders; until there are fewer, no link is probed
  Duration answer_timeout = std::chrono::milliseconds(100);
  Duration interval = std::chrono::seconds(1);  // between orders about one link
  // How long after a path failure report a link is probed again while nothing is known. The report
  // counts for LinkMonitorOptions::window.
  Duration patience = std::chrono::seconds(4);
};

// Has other hosts probe links of paths that one host reported as failed. If flows are spread as
// evenly as they should be, few hosts use a link, and one host's report is not enough to take it as
// down.
//
// A host that knows ports over the link probes as far as the last switch of their path, and also
// with ports of the same pair of NICs whose paths avoid the link. If all of the latter are answered
// and none of the former, the path over the link is dead. If any of the former is answered, it
// works. Otherwise nothing is known, as networks drop and limit ICMP answers and hosts can be busy,
// and the link is probed again. Ports that now lead to another path do not count. The first link of
// a path is not probed: its switch stops using its own dead links.
//
// Complexity of Ask: O(pairs that have flows x paths), until enough hosts are found.
// Thread safety: the controller's loop thread.
class LinkFailureProbes {
 public:
  // The agent that can probe from a NIC, if it is connected.
  using AgentOf = std::function<std::optional<AgentId>(fabric::NodeId nic)>;

  // The state must outlive it.
  LinkFailureProbes(State& state, AgentOf agent_of, LinkFailureProbesOptions options = {});

  struct AddressedProbe {
    AgentId agent;
    wire::ProbeOrder order;
  };
  // The probes to order after `reporter` found a path over these links dead.
  std::vector<AddressedProbe> Ask(AgentId reporter, std::span<const fabric::LinkId> links,
                                  TimePoint now);
  // The probes to order again for links about which nothing is known. To be called periodically.
  std::vector<AddressedProbe> RetryProbes(TimePoint now);

  struct Verdict {
    std::vector<fabric::DirectedLink> links;  // of the probed path over the link
    bool dead = false;
  };
  // Answers may come in several reports. None before the last one, or if nothing is known.
  std::optional<Verdict> TakeAnswer(AgentId from, const wire::ProbeReport& report);

 private:
  // An order to one host about one link.
  struct Open {
    AgentId agent;
    fabric::LinkId suspect;
    fabric::PortKey key;
    fabric::PathIndex path;             // over the link
    std::vector<fabric::DirectedLink> links;  // of that path
    std::set<std::uint16_t> over;       // ports of that path
    std::set<std::uint16_t> beside;     // ports of paths that avoid the link
    std::map<std::uint16_t, std::vector<wire::ProbeAnswer>> answers;  // by port
    std::size_t ttls = 0;                                             // probed for each port
    std::uint8_t last_ttl = 0;  // expires at the last switch of the path
    TimePoint deadline;
  };

  struct Suspicion {
    AgentId reporter;
    TimePoint asked;
    TimePoint until;  // no further orders from then on
  };

  bool HasRoom() const { return open_.size() < options_.max_orders; }
  void AskAbout(AgentId reporter, fabric::LinkId link, TimePoint now,
                std::vector<AddressedProbe>& probes);
  // A path of the pair that has the link, but not as its first one; none if there is no such path.
  std::optional<fabric::PathIndex> PathOver(std::span<const fabric::Path> paths,
                                            fabric::LinkId link) const;
  // The answers show that the port now leads to another path, for example because a switch stopped
  // using a dead link.
  bool LeadsElsewhere(const Open& open, std::uint16_t port) const;
  std::optional<AddressedProbe> MakeProbe(AgentId agent, const fabric::PortKey& key,
                                          std::span<const fabric::Path> paths, fabric::LinkId link,
                                          TimePoint now);

  State& state_;
  AgentOf agent_of_;
  LinkFailureProbesOptions options_;
  std::map<std::uint64_t, Open> open_;  // by the order's number
  std::map<fabric::LinkId, Suspicion> suspicions_;
  ProbeNumbers numbers_{ProbeOwner::kLinkFailure};
};

}  // namespace espalier::controller
