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
  std::size_t max_ports = 3;    // ports that each host tries over the link, and on paths beside it
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
// A host that knows ports over the link probes as far as the last switch of two of their paths, and
// also with ports of the same pair of NICs on two paths beside the link. If none of the former is
// answered, and on a path beside it all are (three ports at least, or all there are), the paths
// over the link are dead; what they share with those beside it is not to blame. If any of the
// former is answered, the link works. Otherwise nothing is known, as networks drop and limit ICMP
// answers and hosts can be busy, and the link is probed again. Ports that now lead to another path
// do not count. The first link of a path is not probed: its switch stops using its own dead links.
//
// A path over the link may fail for another reason, and so may those beside it, for example in a
// fabric with several dead links. So paths with a link that is known to be down are left out, the
// hosts asked at once are of different leaves if possible, and each time a link is probed again,
// other pairs of NICs are asked, over other paths, until all had their turn.
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
    // If it is dead: links beyond the first one of paths beside it whose probes passed; some may
    // occur more than once.
    std::vector<fabric::DirectedLink> passed;
  };
  // Answers may come in several reports. None before the last one, or if nothing is known.
  std::optional<Verdict> TakeAnswer(AgentId from, const wire::ProbeReport& report);

 private:
  // An order to one host about one link.
  struct Open {
    AgentId agent;
    fabric::LinkId suspect;
    fabric::PortKey key;
    std::map<std::uint16_t, fabric::PathIndex> over;    // ports of paths over the link
    std::map<std::uint16_t, fabric::PathIndex> beside;  // ports of paths that avoid the link
    std::map<std::uint16_t, std::vector<wire::ProbeAnswer>> answers;  // by port
    std::size_t ttls = 0;                                             // probed for each port
    std::uint8_t last_ttl = 0;  // expires at the last switch of the path
    TimePoint deadline;
  };

  struct Suspicion {
    AgentId reporter;
    TimePoint asked;
    TimePoint until;                       // no further orders from then on
    std::size_t rounds = 0;                // of orders so far
    std::set<fabric::PortKey> tried = {};  // pairs asked in these, at most kMaxTried
  };
  static constexpr std::size_t kMaxTried = 64;

  bool HasRoom() const { return open_.size() < options_.max_orders; }
  void AskAbout(Suspicion& suspicion, fabric::LinkId link, TimePoint now,
                std::vector<AddressedProbe>& probes);
  // The known ports of a pair by path: those over the link, of paths that have it, but not as their
  // first one, and those beside it. Paths with links that are down are left out.
  using PortsByPath = std::map<fabric::PathIndex, std::vector<std::uint16_t>>;
  struct KnownPorts {
    PortsByPath over;
    PortsByPath beside;
  };
  // The paths beside this one to probe: the one that shares most links with it, as it shows that
  // those work, and another one each time. `ports`: at least one path.
  static std::vector<fabric::PathIndex> PathsBeside(const PortsByPath& ports,
                                                    std::span<const fabric::Path> paths,
                                                    const fabric::Path& suspect, std::size_t round);
  KnownPorts FindPorts(const fabric::PortKey& key, std::span<const fabric::Path> paths,
                       fabric::LinkId link) const;
  std::span<const fabric::Path> PathsOf(const fabric::PortKey& key) const;
  // The path that the answers for a port show; none if they do not.
  std::optional<fabric::PathIndex> AnsweredPath(const Open& open, std::uint16_t port) const;
  // What the answers to an order say, all of which have come.
  std::optional<Verdict> Judge(const Open& open) const;
  std::optional<AddressedProbe> MakeProbe(AgentId agent, const fabric::PortKey& key,
                                          std::span<const fabric::Path> paths, fabric::LinkId link,
                                          std::size_t round, TimePoint now);

  State& state_;
  AgentOf agent_of_;
  LinkFailureProbesOptions options_;
  std::map<std::uint64_t, Open> open_;  // by the order's number
  std::map<fabric::LinkId, Suspicion> suspicions_;
  ProbeNumbers numbers_{ProbeOwner::kLinkFailure};
};

}  // namespace espalier::controller
