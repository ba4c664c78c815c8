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

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "common/fabric/path_map.h"
#include "common/fabric/paths.h"
#include "controller/paths/port_models.h"
#include "controller/paths/probe_orders.h"
#include "controller/paths/unverified_ports.h"
#include "proto/messages.h"

namespace espalier::controller {

struct PathLearnerOptions {
  std::uint32_t max_probes_per_second = 20'000;  // per source NIC; where ICMP answers keep up
  std::uint32_t min_probes_per_second = 4;       // where switches limit their ICMP answers
  Duration answer_timeout = std::chrono::milliseconds(100);
  // Beyond answer_timeout and the pacing itself: an agent that has not reported by then is
  // taken to have lost the order.
  Duration order_grace = std::chrono::seconds(3);
  std::size_t max_orders_per_source = 8;
  std::uint32_t max_ports_per_order = 64;
  // That are known of one source, those of open flows aside.
  std::size_t max_keys_per_source = 16'384;
};

// Fills the path map on demand: turns "a flow needs a port" and "is this port still there?" into
// probe orders for agents, and their reports into observations. Where a model knows the hashes on
// the way (PortModels), predicts instead, and probes only to verify.
//
// A probe of TTL t is answered by the switch that hop t-2 of the path enters, with the address of
// the interface it came in on (or any of that switch): enough TTLs are sent to tell the paths of
// the pair apart. Silence is unknown, never down: unanswered ports are passed over, and the pace
// of their source is halved, down to what ICMP limits let through. A port that was seen is never
// given up for it; one that only a model put on its path is, where it stays silent while others
// of that path are answered (UnverifiedPorts).
//
// Thread safety: the controller's loop thread. The references must outlive it.
class PathLearner {
 public:
  PathLearner(const fabric::Topology& topology, fabric::PathTable& paths, fabric::PathMap& map,
              PathLearnerOptions options, Metrics& metrics);

  // A port of this key is needed that takes this path. True: a model has put one into the map
  // at once. Else probes are queued; the caller asks again when their answers leave it wanting.
  bool RequestPort(const fabric::PortKey& key, fabric::PathIndex path);
  // This port is in use or about to be: look whether it still takes its path. One that no probe
  // has seen is asked about again if it stays silent.
  void Verify(const fabric::PortKey& key, std::uint16_t port);
  // As Verify, but once for ever, for a key of which nothing else is asked. Whether its answer
  // may still come.
  bool VerifyOnce(const fabric::PortKey& key, std::uint16_t port);

  // This port was predicted and led nowhere, in the fabric as it is: it must not be used.
  bool IsQuarantined(const fabric::PortKey& key, std::uint16_t port) const;

  struct Order {
    fabric::NodeId source;  // whose agent must probe
    wire::ProbeOrder order;
  };
  // What to send now to agents that `can_probe` (source NIC) says are there.
  std::vector<Order> TakeOrders(TimePoint now,
                                const std::function<bool(fabric::NodeId)>& can_probe);

  // A port that did not take the path that the map said.
  struct Mismatch {
    fabric::PortKey key;
    std::uint16_t port = 0;
    fabric::PathIndex expected;
    fabric::PathIndex seen;
  };
  struct QuarantinedPort {
    fabric::PortKey key;
    std::uint16_t port = 0;
  };
  struct Findings {
    std::set<fabric::PortKey> changed;  // keys with new ports, or an order that came to its end
    std::vector<Mismatch> mismatches;
    std::vector<QuarantinedPort> quarantined;  // just now
  };
  // A report of the agent that owns `sources`. Answers to orders that are not its own, ports or
  // TTLs that were not asked, and addresses that are on none of the paths are counted and
  // otherwise ignored.
  Findings HandleReport(const wire::ProbeReport& report,
                        const std::function<bool(fabric::NodeId)>& is_own);
  // Gives up orders that were never reported.
  Findings ExpireOrders(TimePoint now);
  // The earliest time at which ExpireOrders has something to do.
  std::optional<TimePoint> NextExpiry() const;

  // Forgets what was learned of keys that `is_used` knows no flow of, where their source has too
  // many: what was asked for first goes first. O(sources), and O(keys) of such a source.
  void ForgetUnused(const std::function<bool(const fabric::PortKey&)>& is_used);

  // Links changed their states: keys with paths over them must be verified again.
  // O(keys x paths), however many links.
  void HandleLinkChange(std::span<const fabric::LinkId> links);

  std::uint64_t probes_ordered() const { return probes_ordered_; }

 private:
  struct KeyState {
    bool wanted = false;
    std::deque<std::uint16_t> verify;
    UnverifiedPorts doubts;
    std::uint64_t fabric = 0;  // fabric_ when they began
    std::uint32_t cursor = 0;  // ports tried, round and round
    bool ordered = false;      // one order at a time
    bool queued = false;
  };
  struct OpenOrder {
    fabric::PortKey key;
    std::set<std::uint16_t> ports;
    std::map<std::uint16_t, fabric::PathIndex> expected;  // of those that the map knew
    std::vector<std::uint8_t> ttls;
    std::map<std::uint16_t, std::vector<wire::ProbeAnswer>> answers;
    std::size_t resolved = 0;
    TimePoint deadline;
  };
  struct SourceState {
    std::deque<fabric::PortKey> queue;
    std::vector<fabric::PortKey> keys;  // all that are in keys_, by when they came
    std::size_t used_keys = 0;          // of them, when they were last looked at
    std::size_t open_orders = 0;
    std::size_t silent_orders = 0;  // in a row
    std::uint32_t pace;
  };

  SourceState& SourceOf(fabric::NodeId source);
  KeyState& StateOf(const fabric::PortKey& key);
  void Queue(const fabric::PortKey& key, KeyState& state);
  std::span<const fabric::Path> PathsOf(const fabric::PortKey& key);
  // Puts predicted ports into the map until one takes the path.
  bool PredictPort(const fabric::PortKey& key, fabric::PathIndex path, KeyState& state);
  std::vector<std::uint16_t> NextPorts(const fabric::PortKey& key, KeyState& state,
                                       std::size_t limit);
  // Others for the path of a doubted port among these, whose answers tell what its silence means.
  void AddControlProbes(const fabric::PortKey& key, KeyState& state,
                        std::vector<std::uint16_t>& ports);
  Order MakeOrder(const fabric::PortKey& key, KeyState& state, SourceState& source, TimePoint now);
  void TakeAnswer(OpenOrder& order, const wire::ProbeAnswer& answer, Findings& findings);
  void Finish(std::map<std::uint64_t, OpenOrder>::iterator order, Findings& findings);
  void JudgeSilence(const OpenOrder& order, KeyState& state, bool may_ask_again,
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

  std::unordered_map<fabric::PortKey, KeyState> keys_;
  std::uint64_t fabric_ = 0;  // changes of links
  std::map<fabric::NodeId, SourceState> sources_;
  std::set<fabric::NodeId> waiting_;  // sources whose queues are not empty: few of many
  std::map<std::uint64_t, OpenOrder> orders_;
  ProbeNumbers numbers_{ProbeOwner::kPathLearner};
  std::uint64_t probes_ordered_ = 0;
};

// The TTLs whose answers tell these paths (of equal length) apart; empty where one path or none.
std::vector<std::uint8_t> DistinguishingTtls(std::span<const fabric::Path> paths);

// The path that fits all these answers; none where several do, or no answer fits any.
std::optional<fabric::PathIndex> PathOfAnswers(const fabric::Topology& topology,
                                               std::span<const fabric::Path> paths,
                                               std::span<const wire::ProbeAnswer> answers);

}  // namespace espalier::controller
