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
  std::size_t hosts = 2;        // that are asked about a link
  std::size_t max_ports = 3;    // that each tries over it, and beside it
  std::size_t max_orders = 16;  // unanswered; further links are not asked about until then
  Duration answer_timeout = std::chrono::milliseconds(100);
  Duration interval = std::chrono::seconds(1);  // between questions about one link
  // How long after an accusation a link is asked about again while nothing is known. (What the
  // accuser said counts as long: LinkMonitorOptions::window.)
  Duration patience = std::chrono::seconds(4);
};

// Asks other hosts about links that one host blames. Where flows are spread as evenly as they
// should be, few hosts use a link, and one host's word is not enough to take it as down.
//
// A host that knows ports over the link probes as far as the last switch of their paths, and beside
// it by ports of the same pair that avoid the link. If every one of the latter is answered and none
// of the former, their paths are dead; if one of the former is answered, they work; else nothing is
// known (networks may drop or limit answers, hosts be busy), and it is asked again. Ports that are
// seen to lead elsewhere now do not count. Links that a path begins with are not asked about: its
// switch leaves its own dead links by itself.
//
// Complexity of Ask: O(pairs that have flows x paths), until enough are found.
// Thread safety: the controller's loop thread.
class LinkFailureProbes {
 public:
  // The agent that can probe from a NIC; none where there is none.
  using AgentOf = std::function<std::optional<AgentId>(fabric::NodeId nic)>;

  // The state must outlive it.
  LinkFailureProbes(State& state, AgentOf agent_of, LinkFailureProbesOptions options = {});

  struct AddressedProbe {
    AgentId agent;
    wire::ProbeOrder order;
  };
  // What to ask of whom, when `accuser` found a path over these links dead.
  std::vector<AddressedProbe> Ask(AgentId reporter, std::span<const fabric::LinkId> links,
                                  TimePoint now);
  // The same about links of which nothing is known yet. To be called now and then.
  std::vector<AddressedProbe> RetryProbes(TimePoint now);

  struct Verdict {
    std::vector<fabric::LinkId> links;  // of the paths over the suspect that were tried
    bool dead = false;
  };
  // Answers may come in several reports; none until the last, and where nothing is known.
  std::optional<Verdict> TakeAnswer(AgentId from, const wire::ProbeReport& report);

 private:
  // What is asked of one host about one link: ports of one path over it, and of others.
  struct Open {
    AgentId agent;
    fabric::LinkId suspect;
    fabric::PortKey key;
    fabric::PathIndex path;             // that goes over it
    std::vector<fabric::LinkId> links;  // of that
    std::set<std::uint16_t> over;
    std::set<std::uint16_t> beside;
    std::map<std::uint16_t, std::vector<wire::ProbeAnswer>> answers;  // by port
    std::size_t ttls = 0;                                             // asked of each port
    std::uint8_t last_ttl = 0;                                        // dies at the last switch
    TimePoint deadline;
  };

  struct Suspicion {
    AgentId reporter;
    TimePoint asked;
    TimePoint until;  // no more questions from then on
  };

  bool HasRoom() const { return open_.size() < options_.max_orders; }
  void AskAbout(AgentId reporter, fabric::LinkId link, TimePoint now,
                std::vector<AddressedProbe>& questions);
  // The path of the pair that goes over the link, not first; none where there is none.
  std::optional<fabric::PathIndex> PathOver(std::span<const fabric::Path> paths,
                                            fabric::LinkId link) const;
  // Its answers show that the port leads another way now, as where a switch has left a dead link.
  bool LeadsElsewhere(const Open& open, std::uint16_t port) const;
  std::optional<AddressedProbe> MakeQuestion(AgentId agent, const fabric::PortKey& key,
                                             std::span<const fabric::Path> paths,
                                             fabric::LinkId link, TimePoint now);

  State& state_;
  AgentOf agent_of_;
  LinkFailureProbesOptions options_;
  std::map<std::uint64_t, Open> open_;  // by the order's number
  std::map<fabric::LinkId, Suspicion> suspicions_;
  ProbeNumbers numbers_{ProbeOwner::kLinkFailure};
};

}  // namespace espalier::controller
