#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/discovery/discovery.h"
#include "controller/paths/probe_orders.h"
#include "proto/messages.h"

namespace espalier::discovery {

// What was found, at the end of some round.
struct Found {
  DiscoveredFabric fabric;
  std::vector<Endpoint> nics;  // as DiscoveredFabric::nics
  std::size_t rounds = 0;
  std::uint64_t probes = 0;
  std::uint64_t answers = 0;
};

// Has the agents discover the fabric when an operator asks for it, without any topology.
//
// Batches of probes become orders to agents, spread over the time that the pace of the batch asks
// for. A batch ends when all its orders are reported or overdue. The next one is chosen in the
// background, as that takes a while in large fabrics. What was found is kept until the operator
// wants a fresh start: another request continues, with the endpoints that have come since.
//
// Once an hour the fabric is discovered again, with more confidence, as it may change: what is
// different then is recorded as an event, and the later result replaces the earlier one. Each time,
// what was found is also compared with the topology in force, and other differences than before
// are another event.
//
// An agent can only answer what it was asked to probe. It may still lie about that, so a discovered
// topology is a proposal: it comes into force when an operator applies it.
// Thread safety: the controller's loop thread. While a batch is chosen, nothing else touches the
// Discovery: no order is open then.
class DiscoveryRun {
 public:
  struct World {
    // The NICs of the agents that are connected and can probe.
    std::function<std::vector<Endpoint>()> endpoints;
    // False: the agent of this host is not connected.
    std::function<bool(const std::string& host, const wire::ProbeOrder& order)> send;
    std::function<void(const std::string& kind, const std::string& text)> record_event;
    // Runs `work` outside the loop, then `done` in it.
    std::function<void(std::function<void()> work, std::function<void()> done)> background;
    std::function<TimePoint()> now;
    // Where what was found differs from the topology in force, as sentences; none: there is none.
    std::function<std::vector<std::string>(const Found& found)> compare{};
  };
  explicit DiscoveryRun(World world);

  struct Request {
    bool is_fresh = false;  // forget what was found before
    double confidence = 0.99;
    std::function<bool(const IpAddress&)> covers;  // the NICs to include
  };
  // Starts or continues. Errors: kFailedPrecondition if fewer than two agents can probe.
  Result<void> Start(const Request& request);
  // To be called every kTick.
  void Tick();
  void HandleReport(const std::string& host, const wire::ProbeReport& report);
  static constexpr Duration kTick = std::chrono::milliseconds(100);
  static constexpr Duration kCheckInterval = std::chrono::hours(1);
  // Of a check: next hops are missed by chance once in so many checks at most.
  static constexpr double kCheckConfidence = 0.9999;

  enum class Phase : std::uint8_t { kNone, kRunning, kComplete };
  Phase phase() const { return phase_; }
  const Found& found() const { return found_; }
  // What the last check has found otherwise than the discovery before it, as sentences.
  const std::vector<std::string>& drift() const { return drift_; }
  // Where it differs from the topology in force, at the end of the last discovery or check.
  const std::vector<std::string>& differences() const { return differences_; }
  // Agents that refused or lost orders, with the last reason.
  const std::map<std::string, std::string>& failures() const { return failures_; }

 private:
  struct OpenOrder {
    EndpointIndex source = 0;
    EndpointIndex destination = 0;
  };
  struct Waiting {
    std::string host;
    OpenOrder ends;
    wire::ProbeOrder order;
  };
  // The orders of a batch, in the order of sending.
  struct Batch {
    std::vector<Waiting> orders;
    std::size_t sent = 0;  // of these
    TimePoint began{};
    TimePoint deadline{};
    Duration sending{};
    std::map<std::uint64_t, OpenOrder> open;  // sent, and not reported whole
  };

  void Probe(std::shared_ptr<Discovery> discovery, bool is_check);
  void ChooseBatch();
  void BeginBatch(const std::vector<Ask>& asks);
  void AddOrders(const std::vector<Ask>& asks, double seconds);
  void SendDue();
  void Complete();
  void CompleteCheck();
  void Compare();
  Found Summarize() const;

  const World world_;
  Phase phase_ = Phase::kNone;
  std::function<bool(const IpAddress&)> covers_;
  std::shared_ptr<Discovery> kept_;    // what requests continue; null: none was started
  std::shared_ptr<Discovery> active_;  // the one that probes now: `kept_` or a check; null: none
  bool is_check_ = false;
  bool is_choosing_ = false;
  std::uint64_t choice_ = 0;  // number of the choice in the background whose result counts
  Batch batch_;
  TimePoint next_check_{};
  Found found_;
  std::vector<std::string> drift_;
  std::vector<std::string> differences_;
  std::map<std::string, std::string> failures_;
  controller::ProbeNumbers numbers_{controller::ProbeOwner::kDiscovery};
};

}  // namespace espalier::discovery
