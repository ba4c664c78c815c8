#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "agent/flows/port_table.h"
#include "agent/probe/probe_budget.h"
#include "agent/probe/prober.h"
#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "proto/messages.h"

namespace espalier::agent {

struct PathGuardOptions {
  Duration dead_after = std::chrono::milliseconds(300);
  // A flow's redraws keep this distance, doubled with each one that brought no progress.
  Duration local_reroute_interval = std::chrono::milliseconds(200);
  Duration max_local_reroute_interval = std::chrono::seconds(5);
  Duration check_timeout = std::chrono::milliseconds(100);
  // Answered by the destination's switch in a leaf-spine fabric; 5 in a 3-tier one.
  std::uint8_t probe_ttl = 3;
  std::size_t candidates = 4;  // other ports that a check tries
  std::size_t max_checks = 64;
  // UDP ports that probes may go to; flows to others are judged by what their transport says.
  std::vector<std::uint16_t> probe_ports = {wire::kRoceV2Port};
  // Switches choose paths by the queue pair number, too, so probes carry that of the flow. Else
  // they carry 0, which no program has: a program must not have us send to a queue pair of its
  // choice.
  bool fabric_hashes_qpn = false;
  ProbeBudgetOptions budget;
  double slow_fraction = 0.5;  // of the planned rate
};

// Takes flows off dead paths without the controller: the hosts' own safety ("Routing for Large ML
// Models", section 3.5.5).
//
// A flow that has something to send and makes no progress is checked by probes with its five-tuple
// (as UDP) and with a few other ports. Its path is dead where they say so (its probes stay
// unanswered, others are answered) or its transport does (retries grow). Then it takes another
// port, one whose probe was answered if there is one, and so on until it makes progress. A path of
// which nobody says anything is left alone: networks may drop or limit answers.
//
// Programs say where their flows go to and that they stand still, so they choose where probes go
// to: destinations of elephants only, to the ports that are allowed, within a budget. Where that
// has no room, a check waits.
//
// A flow that is split is checked as soon as one of its parts makes no progress, where its source
// sees the parts; only those that stand still are then asked about and leave their ports.
//
// Verdicts are handed on when they change; a redraw every time.
// Thread safety: the agent's loop thread.
class PathGuard {
 public:
  using OnHealth = std::function<void(const wire::PathHealth&)>;

  // The seed decides which ports are drawn.
  PathGuard(const PathGuardOptions& options, EventLoop& loop, Prober& prober, PortTable& ports,
            Metrics& metrics, std::uint64_t seed, OnHealth on_health);

  // Input: all elephants, ascending by id.
  void HandleMeasures(std::span<const FlowMeasure> flows);

 private:
  // A flow that is or was in trouble.
  struct Watch {
    FlowSample sample;  // as last seen
    std::uint64_t achieved_bps = 0;
    bool stuck = false;
    bool retries_grew = false;
    std::vector<PortMeasure> stuck_ports;  // the parts that stand still, where they are known
    bool checking = false;
    std::vector<std::uint16_t> own_ports;   // of the check at hand
    std::vector<std::uint16_t> candidates;  // likewise
    std::vector<std::uint16_t> answered;    // likewise
    TimePoint next_check;
    Duration interval{};
    wire::PathVerdict verdict = wire::PathVerdict::kGood;
  };

  void EvaluateFlow(const FlowMeasure& flow);
  // The parts that stand still, of those on paths in force.
  std::vector<PortMeasure> StuckPorts(const FlowMeasure& flow) const;
  void SetVerdict(Watch& watch, wire::PathVerdict verdict);
  void StartCheck(wire::LocalFlowId flow, Watch& watch);
  void HandleAnswers(wire::LocalFlowId flow, const wire::ProbeReport& report);
  void EndCheck(Watch& watch);
  void BackOff(Watch& watch) const;
  // Those that the transport says are dead.
  static std::vector<std::uint16_t> RetryingPorts(const Watch& watch);
  void RerouteLocally(Watch& watch, const std::vector<std::uint16_t>& dead);
  // News of one of its paths.
  void ReportPath(const Watch& watch, std::uint32_t path_id, std::uint16_t port);
  std::vector<std::uint16_t> OwnPorts(const FlowSample& sample) const;
  std::uint16_t DrawPort(const IpAddress& destination, const std::vector<std::uint16_t>& without);
  wire::FlowHealth Health(const Watch& watch) const;

  const PathGuardOptions options_;
  EventLoop& loop_;
  Prober& prober_;
  PortTable& ports_;
  Counter& local_reroutes_;
  Counter& checks_put_off_;
  ProbeBudget budget_;
  TimePoint short_until_{};  // the budget had no room a moment ago
  std::mt19937_64 random_;
  const OnHealth on_health_;
  std::map<wire::LocalFlowId, Watch> watches_;
  std::size_t checks_ = 0;
  std::vector<std::pair<IpAddress, std::uint16_t>> in_use_;  // ascending; of this host's elephants
  wire::PathHealth news_;
};

}  // namespace espalier::agent
