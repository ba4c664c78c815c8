#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "agent/flows/guard/link_evidence.h"
#include "agent/flows/guard/port_draw.h"
#include "agent/flows/guard/recent_moves.h"
#include "agent/flows/guard/recovery_watch.h"
#include "agent/flows/guard/repeat_watch.h"
#include "agent/flows/guard/verdict_basis.h"
#include "agent/flows/port_table.h"
#include "agent/probe/probe_budget.h"
#include "agent/probe/prober.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

struct PathGuardOptions {
  Duration dead_after = std::chrono::milliseconds(300);
  // The same for flows with standby paths, whose checks are short; at least some of the flow's
  // round trips, and twice as long for TCP. Zero: as without standby paths.
  Duration standby_after = std::chrono::milliseconds(30);
  // Minimum time between two local reroutes of a subflow; doubled after each one without progress.
  Duration local_reroute_interval = std::chrono::milliseconds(200);
  Duration max_local_reroute_interval = std::chrono::seconds(5);
  Duration check_timeout = std::chrono::milliseconds(100);
  Duration short_check_timeout = std::chrono::milliseconds(20);
  // Used until the controller has told the links of the flow's paths. With 3, the destination's
  // leaf answers in a leaf-spine fabric; a 3-tier fabric needs 5.
  std::uint8_t probe_ttl = 3;
  std::size_t candidates = 4;  // alternative ports that a check probes
  std::size_t max_checks = 64;
  // Destination ports (UDP) to which probes may go. For flows to other ports only the transport's
  // retries count.
  std::vector<std::uint16_t> probe_ports = {wire::kRoceV2Port};
  // True if switches also hash the queue pair number: probes then carry the flow's. Otherwise they
  // carry 0, which no program has, so that no program can make the agent send to a queue pair of
  // its choice.
  bool fabric_hashes_qpn = false;
  ProbeBudgetOptions budget;
  double slow_fraction = 0.5;   // of the planned rate
  TransportReaders transports;  // without repeated_requests, pairs that only answer are unchecked
};

// Detects dead paths of this host's flows and reroutes the flows locally, without the controller
// (after "Routing for Large ML Models", section 3.5.5).
//
// A flow that has something to send and makes no progress is checked: probes are sent with its
// five-tuple (as UDP) and with a few other source ports. The path is dead if the flow's own probes
// stay unanswered while others are answered, or else if the transport's retries grow. The flow then
// takes another port, preferably one whose probe was answered. This repeats until it makes
// progress. Without any such evidence the flow keeps its path, as networks may drop or limit
// answers to probes.
//
// The controller may have given the flow standby paths, which do not share links or switches with
// the paths in force, and of which no link gets too many flows. Then the check comes early and is
// short, and two in a row must find the path dead and a standby alive. The flow moves to that
// standby, also without a controller. It moves, too, if its path answers but TCP has repeated
// something that nobody acknowledges: then the acknowledgements are lost, and the standby has
// another return path (TCP repeats nothing before 200 ms: RFC 6298 and Linux).
//
// What probes of one flow show counts for all flows of the host (LinkEvidence), if the controller
// tells the links of paths. Flows with standby paths, also idle ones, whose path may have a link
// that another flow found dead, get a short check at once, unless they have made progress since. If
// their path has the dead link for certain, the first such check in a row is enough, and else the
// second. These checks take half of the checks at most, and none while the probe budget is short.
//
// A queue pair that only sends acknowledgements always has nothing to send. It gets short checks
// while peers repeat requests to its NIC (RepeatWatch), if it has standby paths, and moves by the
// same evidence. Checks without a result become rarer, as the device does not tell which queue pair
// it is.
//
// A split flow is checked as soon as one of its subflows makes no progress, if its source sees
// subflows. Only the subflows without progress are checked and leave their ports.
//
// Programs choose the destinations of probes by announcing flows without progress. Therefore probes
// go only to destinations of elephants, to allowed ports, and within a budget. A check waits if the
// budget has no room.
//
// Programs claim progress and retries. Each report of a dead path therefore says on what it rests:
// on probes (PathBasis::kProbed), or on what VerdictBasis finds. What only its program claims
// reroutes a flow, too, but is no sign against the path to anybody else.
//
// Reports each change of a verdict, each local reroute, and when a flow that left a dead path, by a
// local reroute or the controller's order, has recovered (RecoveryWatch).
// Thread safety: the agent's loop thread.
class PathGuard {
 public:
  using OnHealth = std::function<void(const wire::PathHealth&)>;

  // The seed determines which ports are drawn.
  PathGuard(const PathGuardOptions& options, EventLoop& loop, Prober& prober, PortTable& ports,
            Metrics& metrics, std::uint64_t seed, OnHealth on_health);

  // Input: all elephants, ascending by id.
  void HandleMeasures(std::span<const FlowMeasure> flows);
  // Paths have been pushed: flows that they take off dead paths begin to recover now.
  void NoteMoves();

 private:
  // A flow that is stuck or slow, or is being checked.
  struct Watch {
    FlowSample sample;  // as last seen
    std::uint64_t achieved_bps = 0;
    bool stuck = false;
    bool only_acknowledges = false;        // and its acknowledgements may not arrive
    bool is_suspect = false;               // it is not stuck but for the evidence of other flows
    PortMeasure whole;                     // of the flow as a whole
    std::vector<PortMeasure> stuck_ports;  // subflows without progress, if they are known
    bool checking = false;
    bool is_short = false;                    // the current check probes only standbys
    std::map<std::uint16_t, int> misses;      // by port: short checks in a row in which it was dead
    std::vector<std::uint16_t> on_trial;      // ports to which the flow has moved lately
    std::vector<std::uint16_t> own_ports;     // the flow's ports that the current check probes
    std::vector<std::uint16_t> candidates;    // alternative ports that it probes, standbys first
    std::vector<wire::FlowPath> standbys;     // among these
    std::vector<wire::FlowPath> known_paths;  // of the ports that it probes, as far as known
    std::int64_t early = 0;                   // dead paths that others' evidence showed earlier
    std::vector<std::uint16_t> answered;      // ports whose probes were answered
    std::vector<std::uint16_t> shown_dead;    // own ports that the last check showed to be dead
    TimePoint next_check;
    TimePoint next_trial_check;  // of ports on trial
    TimePoint rerouted;          // last
    Duration interval{};
    wire::PathVerdict verdict = wire::PathVerdict::kGood;
  };

  struct LeftPath {
    wire::FlowPath path;  // that is dead
    wire::FlowPath next;
    wire::PathBasis basis = wire::PathBasis::kClaimed;
  };

  void EvaluateFlow(const FlowMeasure& flow);
  // How long the flow must make no progress before it gets a short check, if it can get one.
  Duration EarlyPatience(const FlowSample& sample) const;
  // The same before it is checked at all.
  Duration Patience(const FlowSample& sample) const;
  // Of the port if it is stuck, else of the flow as a whole.
  static const PortMeasure& MeasureOf(const Watch& watch, std::uint16_t port);
  // Whether what TCP has repeated since the last progress is not acknowledged in time.
  bool IsUnacknowledged(const Watch& watch, std::uint16_t port) const;
  // Returns the subflows that have made no progress for so long and whose paths are in force.
  std::vector<PortMeasure> StuckPorts(const FlowMeasure& flow, Duration patience) const;
  // Returns those that are to be checked because of what other flows have found.
  std::vector<PortMeasure> SuspectPorts(const FlowMeasure& flow) const;
  bool MayCheck(const Watch& watch) const;
  void SetVerdict(Watch& watch, wire::PathVerdict verdict);
  void StartCheck(wire::LocalFlowId flow, Watch& watch, std::vector<std::uint16_t> ports);
  Duration ShortTimeout(const FlowSample& sample) const;
  // The ports that a check at this time is about, or none if they are unknown; null: it must wait.
  std::optional<std::vector<std::uint16_t>> PortsToCheck(const Watch& watch) const;
  // At which the last switch of the flow's paths answers, which is one more than they have links;
  // of the shortest one, as nobody answers beyond.
  std::uint8_t ProbeTtl(const Watch& watch) const;
  // Chooses the alternatives that a check of these ports probes.
  void ChooseCandidates(Watch& watch, std::vector<std::uint16_t>& own_ports);
  void HandleAnswers(wire::LocalFlowId flow, const wire::ProbeReport& report);
  void EndCheck(Watch& watch);
  // Returns the ports that a check has found dead, and decides when the next one comes.
  std::vector<std::uint16_t> EndLongCheck(Watch& watch) const;
  std::vector<std::uint16_t> EndShortCheck(Watch& watch) const;
  void BackOff(Watch& watch) const;
  // Returns the checked ports whose retries grow.
  static std::vector<std::uint16_t> RetryingPorts(const Watch& watch);
  void RerouteLocally(Watch& watch, const std::vector<std::uint16_t>& dead);
  // The paths to which a flow that leaves `count` of its paths goes.
  std::vector<wire::FlowPath> DrawPaths(const Watch& watch, std::size_t count);
  // On what it rests that this path of the flow is dead.
  wire::PathBasis BasisOf(const Watch& watch, std::uint16_t port);
  // Reports that the flow has left a path for this port (0: it could not).
  void ReportLeft(const Watch& watch, const LeftPath& left, std::uint16_t port);
  std::vector<std::uint16_t> OwnPorts(const FlowSample& sample) const;
  wire::FlowHealth Health(const Watch& watch) const;

  const PathGuardOptions options_;
  EventLoop& loop_;
  Prober& prober_;
  PortTable& ports_;
  Counter& local_reroutes_;
  Counter& standby_moves_;
  Counter& early_moves_;
  Counter& checks_put_off_;
  ProbeBudget budget_;
  RecoveryWatch recovery_;
  RepeatWatch repeats_;
  VerdictBasis basis_;
  TimePoint budget_short_until_{};  // until then the probe budget counts as short
  PortDraw draw_;
  const OnHealth on_health_;
  std::map<wire::LocalFlowId, Watch> watches_;
  RecentMoves recent_moves_;
  LinkEvidence evidence_;
  std::size_t checks_ = 0;
  wire::PathHealth pending_health_;
};

}  // namespace espalier::agent
