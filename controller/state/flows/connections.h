#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/fabric/topology.h"
#include "controller/state/flows/flow_table.h"
#include "proto/messages.h"

namespace espalier::controller {

// Finds the two flows of each connection: a queue pair and the one at the other host that it is
// connected to, each of which its own agent reports. They are one connection if the addresses and
// the numbers of the queue pairs (QPN) of one are those of the other, exchanged.
//
// Agents report elephants by themselves. The other end of an elephant often sends little, so its
// agent is asked for it (TakeWanted).
//
// Queue pairs that are reported as one flow have the numbers of the first of them. Programs open
// and connect them in the same order at both ends; where one does not, the two flows stay unpaired,
// which is what OtherEnd::kUnknown says. An agent can claim the numbers of any queue pair, but only
// for addresses of its own host, so it deceives nobody but the hosts that it talks to. Of several
// flows with the same numbers the first one counts while it is open.
//
// FlowDecisions records the pairs (Flow::opposite). Thread safety: the controller's loop thread.
// O(log flows).
class Connections {
 public:
  // The references must outlive it.
  Connections(const fabric::Topology& topology, const FlowTable& flows)
      : topology_(topology), flows_(flows) {}

  // The flow's NICs are known, so that its source address is one of its agent's host. Returns the
  // flow at the other end, if it is open.
  std::optional<FlowSlot> Open(FlowSlot slot);
  // Returns the flow that was at the other end (Flow::opposite), which is alone now.
  std::optional<FlowSlot> Close(FlowSlot slot);

  // The queue pairs of this host that are the other ends of reported flows and are not reported
  // themselves. To be called regularly, such as once a second: a queue pair that stays unknown is
  // named in ever fewer calls, down to one of 64. At most kMostWanted at once.
  std::vector<wire::QueuePair> TakeWanted(const std::string& host);
  static constexpr std::size_t kMostWanted = 1'024;

  std::size_t size() const { return ends_.size(); }  // ends known, of open flows

 private:
  struct End {
    IpAddress source;
    IpAddress destination;
    std::uint32_t local_qpn = 0;
    std::uint32_t remote_qpn = 0;
    bool operator==(const End&) const = default;
  };
  struct HashEnd {
    std::size_t operator()(const End& end) const;
  };
  // Flows to one host whose other ends are unknown.
  struct Unpaired {
    std::set<FlowSlot> flows;
    int wait = 0;   // calls of TakeWanted until they are named again
    int pause = 1;  // and after that
  };

  static End EndOf(const Flow& flow);
  const std::string& HostOf(const Flow& flow) const;
  void SetUnpaired(FlowSlot slot);
  void SetPaired(FlowSlot slot);

  const fabric::Topology& topology_;
  const FlowTable& flows_;
  std::unordered_map<End, FlowSlot, HashEnd> ends_;
  std::map<std::string, Unpaired> unpaired_;  // by the host of their other end
};

}  // namespace espalier::controller
