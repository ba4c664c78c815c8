#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/ecmp/port_set.h"
#include "common/fabric/paths.h"
#include "controller/paths/models/port_models.h"
#include "controller/paths/models/rehash_detector.h"
#include "controller/paths/operator_probes.h"
#include "controller/paths/predicted_ports.h"
#include "controller/paths/probe_orders.h"
#include "controller/paths/unverified_ports.h"
#include "proto/messages.h"

namespace espalier::controller {

struct PathLearnerOptions {
  std::uint32_t max_probes_per_second = 20'000;  // per source NIC, if ICMP answers keep up
  std::uint32_t min_probes_per_second = 4;       // if switches limit their ICMP answers
  Duration answer_timeout = std::chrono::milliseconds(100);
  // Added to answer_timeout and the time of sending; an agent that has not reported by then has
  // lost the order.
  Duration order_grace = std::chrono::seconds(3);
  std::size_t max_orders_per_source = 8;
  std::uint32_t max_ports_per_order = 64;
  // Keys known for one source, besides those of open flows.
  std::size_t max_keys_per_source = 16'384;
  bool fabric_hashes_protocol = true;  // as in ControllerOptions
};

// The protocol by which the ports of a flow are known. What holds for UDP holds for TCP, too,
// unless the fabric hashes the protocol, or the host of a source with several uplinks chooses among
// them, as Linux hashes it there by default.
std::uint8_t HashedProtocol(const fabric::PathTable& paths, fabric::NodeId source,
                            std::uint8_t protocol, bool fabric_hashes_protocol);

// Fills the path map on demand. It turns requests for a port and for verifying a port into probe
// orders for agents, and their reports into observations. If a hash model covers the path
// (PortModels), it predicts the port and probes only to verify it.
//
// A probe with TTL t is answered by the switch that hop t-2 of the path enters, from the address of
// the interface on which it came in, or of another one of that switch. Enough TTLs are sent to tell
// the paths of the pair apart. Silence means unknown, never down. Silent ports are probed again,
// and make up at most half of the new ports of an order (path_reach.h says why). If most ports of
// an order are silent, the probe rate of its source is halved, down to what ICMP limits let
// through. A verified port is never quarantined for silence. A predicted port is, if it stays
// silent while other ports of its path are answered (UnverifiedPorts).
//
// Thread safety: the controller's loop thread. The references must outlive it.
class PathLearner {
 public:
  PathLearner(const fabric::Topology& topology, fabric::PathTable& paths, fabric::PathMap& map,
              PathLearnerOptions options, Metrics& metrics);

  // Requests a port of this key that takes this path. Returns one that a model has put into the
  // map. None: probes are queued; the caller asks again if their answers do not give it a port.
  std::optional<std::uint16_t> RequestPort(const fabric::PortKey& key, fabric::PathIndex path);
  // Queues a probe whether this port, which is or will be in use, still takes its path. A port that
  // no probe has seen is probed again if it stays silent.
  void Verify(const fabric::PortKey& key, std::uint16_t port);
  // As Verify, but only if that was not requested since links changed. Returns whether its answer
  // may still come.
  bool VerifyOnce(const fabric::PortKey& key, std::uint16_t port);

  // The path of what a TCP connection's far end sends back to this source port, as hash models
  // predict it.
  PortModels::Return PredictReturn(const fabric::PortKey& key, std::uint16_t port) {
    return models_.PredictReturn(key, port);
  }

  // The path that a hash model predicts for this port; none: no model covers it.
  std::optional<fabric::PathIndex> PredictPath(const fabric::PortKey& key, std::uint16_t port) {
    const auto model = models_.ModelOf(key);
    return model ? model->Predict(port) : std::nullopt;
  }

  // Whether probes, which are UDP, can show the paths of this key's ports.
  bool CanProbe(const fabric::PortKey& key) const {
    return key.protocol == wire::kProtocolUdp || !options_.fabric_hashes_protocol;
  }

  // Whether the port is quarantined in the present fabric: it was predicted, and stays silent.
  bool IsQuarantined(const fabric::PortKey& key, std::uint16_t port) const;

  struct Order {
    fabric::NodeId source;  // the NIC whose agent must probe
    wire::ProbeOrder order;
  };
  // The orders to send now, to the agents of source NICs for which `can_probe` is true.
  std::vector<Order> TakeOrders(TimePoint now,
                                const std::function<bool(fabric::NodeId)>& can_probe);

  // A port that took another path than the map said.
  struct Mismatch {
    fabric::PortKey key;
    std::uint16_t port = 0;
    fabric::PathIndex expected;
    fabric::PathIndex seen;
    bool was_verified = false;  // else it was only predicted
  };
  struct AnsweredPort {
    fabric::PortKey key;
    std::uint16_t port = 0;
  };
  struct QuarantinedPort {
    fabric::PortKey key;
    std::uint16_t port = 0;
  };
  struct Findings {
    std::set<fabric::PortKey> changed;   // keys with new ports, or whose order has finished
    std::vector<AnsweredPort> answered;  // ports whose path was seen
    std::vector<Mismatch> mismatches;
    std::vector<QuarantinedPort> quarantined;  // newly
  };
  // Takes a report of the agent whose source NICs satisfy `is_own`. Counts and otherwise ignores
  // answers to orders of other agents, for ports or TTLs that were not ordered, and from addresses
  // on none of the paths.
  Findings HandleReport(const wire::ProbeReport& report,
                        const std::function<bool(fabric::NodeId)>& is_own);
  // Ends orders that were not reported in time.
  Findings ExpireOrders(TimePoint now);

  // If a source has too many keys, forgets those for which `is_used` is false, the oldest first.
  // O(sources), and O(keys) for such a source.
  void ForgetUnused(const std::function<bool(const fabric::PortKey&)>& is_used);

  // Marks ports of keys whose paths use these links for verification, after link states have
  // changed. O(keys x paths) for any number of links, done as keys are looked up.
  void HandleLinkChange(std::span<const fabric::LinkId> links);

  // Learns the ports of this part of the fabric again, as its hash has changed: ports that are
  // known must be verified, and models are forgotten. As HandleLinkChange.
  void LearnAgain(const RehashScope& scope);

  // Probes at operators' request, from which nothing is learned.
  OperatorProbes& operator_probes() { return operator_probes_; }

 private:
  struct KeyState {
    bool wanted = false;
    std::deque<std::uint16_t> verify;
    fabric::PortSet verifying;      // those in `verify`
    std::set<std::uint16_t> asked;  // ports for which Verify was called
    UnverifiedPorts unverified;
    PredictedPorts predicted;
    std::uint64_t fabric = 0;   // fabric_ to which these three refer
    std::uint32_t cursor = 0;   // the next port to probe (NthPort)
    std::uint16_t retried = 0;  // the last silent port that was probed again
    bool ordered = false;       // an order is open; one at a time
    bool queued = false;
  };
  struct OpenOrder {
    fabric::PortKey key;
    std::set<std::uint16_t> ports;
    std::map<std::uint16_t, fabric::PathIndex> expected;  // ports that the map knew
    std::vector<std::uint8_t> ttls;
    std::map<std::uint16_t, std::vector<wire::ProbeAnswer>> answers;
    std::size_t resolved = 0;
    TimePoint deadline;
  };
  struct SourceState {
    std::deque<fabric::PortKey> queue;
    std::vector<fabric::PortKey> keys;  // its keys in keys_, oldest first
    std::size_t used_keys = 0;          // of these, used ones at the last ForgetUnused
    std::size_t open_orders = 0;
    std::size_t silent_orders = 0;  // in a row
    std::uint32_t pace;
  };

  SourceState& SourceOf(fabric::NodeId source);
  KeyState& StateOf(const fabric::PortKey& key);
  void Queue(const fabric::PortKey& key, KeyState& state);
  std::span<const fabric::Path> PathsOf(const fabric::PortKey& key);
  // Puts a port that the models predict for this path into the map, beside those that it has.
  // Returns it, if there is one. If so many ports were tried that there is none, the map has all
  // paths that no port takes. Tries O(paths) ports if they spread evenly, else as many as
  // EnoughPortsToReach says, and each port once for each key and model (PredictedPorts).
  std::optional<std::uint16_t> PredictPort(const fabric::PortKey& key, fabric::PathIndex path,
                                           KeyState& state);
  void QueueToVerify(KeyState& state, std::uint16_t port);
  std::vector<std::uint16_t> NextPorts(const fabric::PortKey& key, KeyState& state,
                                       std::size_t limit);
  // Adds silent ports to be probed again, each in its turn, at most `limit`.
  void AddSilentPorts(const fabric::PortKey& key, KeyState& state,
                      std::vector<std::uint16_t>& ports, std::size_t limit);
  // Adds ports of the same path as an unverified port among these. If they are answered and it is
  // not, its silence counts.
  void AddControlProbes(const fabric::PortKey& key, KeyState& state,
                        std::vector<std::uint16_t>& ports);
  Order MakeOrder(const fabric::PortKey& key, KeyState& state, SourceState& source, TimePoint now);
  void TakeAnswer(OpenOrder& order, const wire::ProbeAnswer& answer, Findings& findings);
  void Finish(std::map<std::uint64_t, OpenOrder>::iterator order, Findings& findings);
  void HandleSilentPorts(const OpenOrder& order, KeyState& state, bool may_ask_again,
                         Findings& findings);
  bool AreOtherPortsAnswered(const OpenOrder& order, std::uint16_t port,
                             fabric::PathIndex path) const;

  const fabric::Topology& topology_;
  fabric::PathTable& paths_;
  fabric::PathMap& map_;
  PortModels models_;
  PathLearnerOptions options_;
  Counter& probes_metric_;
  Counter& answers_metric_;
  Counter& unexpected_metric_;
  Counter& mismatch_metric_;
  Counter& quarantined_metric_;
  Counter& predictions_metric_;

  std::unordered_map<fabric::PortKey, KeyState> keys_;
  std::uint64_t fabric_ = 0;  // number of link changes
  std::map<fabric::NodeId, SourceState> sources_;
  std::set<fabric::NodeId> waiting_;  // sources with a non-empty queue
  std::map<std::uint64_t, OpenOrder> orders_;
  ProbeNumbers numbers_{ProbeOwner::kPathLearner};
  OperatorProbes operator_probes_{topology_, paths_};
};

}  // namespace espalier::controller
