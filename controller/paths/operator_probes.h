#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/paths.h"
#include "controller/paths/probe_orders.h"
#include "proto/messages.h"

namespace espalier::controller {

// The switches that answered probes of one source port, and the path that their answers show.
struct ProbedPort {
  std::uint16_t port = 0;
  std::optional<fabric::PathIndex> path;  // none: no answer, or answers that fit several paths
  std::uint8_t hops_answered = 0;         // the furthest hop whose switch answered; 0: none did
  std::uint32_t rtt_us = 0;               // of the furthest answer
};

// The result of an operator's probes between two NICs.
struct ProbedPair {
  fabric::NodeId source;       // NIC
  fabric::NodeId destination;  // NIC
  fabric::NodeId source_leaf;
  fabric::NodeId destination_leaf;
  std::vector<ProbedPort> ports;  // in the order in which they were asked for
};

// Asks hosts, at operators' request, which path their source ports take now. Probes of every TTL
// are sent, so that the answers show how far packets get. The path map stays as it is. Silence
// proves nothing, because switches limit their answers.
//
// Budget: kMaxOpen requests at a time, kMaxPorts ports each, at kProbesPerSecond.
// Thread safety: the controller's loop thread. The references must outlive it.
class OperatorProbes {
 public:
  static constexpr std::size_t kMaxOpen = 8;
  static constexpr std::size_t kMaxPorts = 64;
  static constexpr std::uint32_t kProbesPerSecond = 200;

  OperatorProbes(const fabric::Topology& topology, const fabric::PathTable& paths)
      : topology_(topology), paths_(paths) {}

  struct Request {
    std::string source;       // a NIC, or a host with one NIC
    std::string destination;  // the same
    std::vector<std::uint16_t> ports;
  };
  using Done = std::function<void(Result<ProbedPair>)>;
  struct Order {
    fabric::NodeId source;  // the NIC whose agent must probe
    wire::ProbeOrder order;
  };
  // Prepares the order that the caller sends to an agent; `can_probe`: whether one is connected for
  // this source NIC. `done` is called once, unless this returns an error:
  // with the result, or kUnavailable if the agent cannot probe or does not answer in time.
  // Errors: kNotFound for unknown names; kInvalidArgument for a host with several NICs, or no or
  // too many ports; kFailedPrecondition for NICs without a choice of paths or without an agent;
  // kResourceExhausted for too many requests at a time.
  Result<Order> Begin(const Request& request, const std::function<bool(fabric::NodeId)>& can_probe,
                      TimePoint now, Done done);
  // Takes a report of the agent whose source NICs satisfy `is_own`.
  void HandleReport(const wire::ProbeReport& report,
                    const std::function<bool(fabric::NodeId)>& is_own);
  // Ends requests whose agents did not answer in time, with the answers that have come.
  void Expire(TimePoint now);

 private:
  struct Open {
    ProbedPair pair;
    std::map<std::uint16_t, std::vector<wire::ProbeAnswer>> answers;  // by port
    std::uint8_t first_ttl = 2;
    std::size_t ttls = 0;
    TimePoint deadline;
    Done done;
  };

  Result<fabric::NodeId> FindNic(const std::string& name) const;
  void Finish(std::map<std::uint64_t, Open>::iterator open);

  const fabric::Topology& topology_;
  const fabric::PathTable& paths_;
  std::map<std::uint64_t, Open> open_;  // by the order's number
  ProbeNumbers numbers_{ProbeOwner::kOperator};
};

// `count` different source ports: `first`, and others spread over those of RoCEv2.
std::vector<std::uint16_t> SpreadPorts(std::size_t count,
                                       std::uint16_t first = fabric::kFirstRocePort);

}  // namespace espalier::controller
