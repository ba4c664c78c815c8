#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/bus.h"
#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "controller/agents/publisher.h"
#include "controller/forests/tree_jobs.h"
#include "controller/links/link_monitor.h"
#include "controller/links/revival_probes.h"
#include "controller/links/suspect_probes.h"
#include "controller/operations/intent_ends.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/load_summary.h"
#include "controller/placement/placement.h"
#include "controller/placement/rate_planner.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/foresight.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "proto/convert.h"

namespace espalier::controller {

// What an operator's action did, or (dry run) would do.
struct ActionOutcome {
  std::int64_t version = 0;    // of the topology, afterwards
  std::uint64_t revision = 0;  // of the intents, afterwards
  std::vector<FlowMove> moves;
  LoadSummary before;
  LoadSummary after;        // of a dry run of a failure: as before
  std::size_t forests = 0;  // that are being made anew
};
using ActionDone = std::function<void(Result<ActionOutcome>)>;

// On whose word, why and how something is done.
struct OperatorRequest {
  std::string actor;
  std::string reason;
  std::optional<WallTime> until;  // what is failed or drained is so until then
  bool dry_run = false;           // only tell
  // Of a recompute: how many bytes in flight it may move in all.
  std::int64_t max_moved_bytes = std::numeric_limits<std::int64_t>::max();
};

enum class IntentAction { kFail, kRestore, kDrain, kUndrain };

// The controller of one cluster: hears of elephant flows from the agents, assigns paths, learns
// which source port takes which path, and pushes the ports (ARCHITECTURE flow A); takes the
// operator's intents (flow B). Runs in any EventLoop over any Bus, real or simulated.
//
// One turn does the work that has come up: it is posted when there is something to do and takes
// all that has arrived by then, so a burst of flow starts is one assignment.
//
// Thread safety: everything on the loop's thread. The references must outlive it.
class Controller {
 public:
  Controller(fabric::Topology topology, ControllerOptions options, EventLoop& loop, Bus& bus,
             Store& store, Metrics& metrics);
  ~Controller();

  // Takes over from the controller before it: its intents, a higher epoch, its events; then
  // listens. Call once. Waits for the store. Errors: the store's.
  Result<void> Start();

  // Operators' actions, one after the other. An intent is durable before anything moves, each is
  // in the audit log, and `done` (called inside the call only for dry runs and for what is refused
  // unseen) comes after that. The loop goes on meanwhile.
  // Errors: kNotFound (no such link, node or revision), kAlreadyExists (it is in that state
  // already), kInvalidArgument (`until` is past, or makes no sense there), kResourceExhausted (too
  // many wait), the store's.
  void ChangeLink(const std::string& link, IntentAction action, const OperatorRequest& request,
                  ActionDone done);
  void ChangeNode(const std::string& node, IntentAction action, const OperatorRequest& request,
                  ActionDone done);
  // When all flows are assigned, this job is to be so many times as fast as one of weight 1, which
  // all jobs have without a word. They are assigned anew by it, as Recompute does. The job may be
  // one that is yet to come. Errors also: kInvalidArgument (`weight` is not 1 to kMostWeight).
  void ChangeWeight(const std::string& job, std::uint64_t weight, OperatorRequest request,
                    ActionDone done);
  // Holds instead of what the configuration says (controller/settings/policies.h); no value: the
  // configuration holds again. Moves no flow by itself.
  // Errors also: SetPolicy.
  void ChangePolicy(const std::string& name, std::optional<std::string> value,
                    OperatorRequest request, ActionDone done);
  // Assigns all flows anew.
  void Recompute(OperatorRequest request, ActionDone done);
  // Back to the intents of an earlier revision (none: the one before the present), as a new one.
  void RollBack(std::optional<std::uint64_t> revision, OperatorRequest request, ActionDone done);
  // Starts a job whose collective runs on a forest, or ends it. A job that has no forest, or ranks
  // without an agent that can run it, is refused, and nothing is changed; else it is there from now
  // on, over restarts too. Its plan reaches the ranks later (TreeJobs has its state).
  // Errors also: TreeJobs::Check and Prepare.
  void StartJob(JobSpec spec, OperatorRequest request, ActionDone done);
  void StopJob(const std::string& name, OperatorRequest request, ActionDone done);
  // The latest `most` entries after `since`, oldest first.
  void ReadAudit(std::uint64_t since, std::size_t most, Store::Done<std::vector<AuditEntry>> done);

  // The bus let a peer not in, or sent it away: `who` is an agent's name or an address. Counted,
  // and told as events, of which strangers cannot make more than a few a second.
  void HandleRefusal(const std::string& who, const std::string& reason);

  // A telemetry feed says that a link is down, or up again: it is used again once it has stayed up
  // for a while.
  void HandleLinkReport(fabric::LinkId link, bool up, const std::string& source);
  // A job's scheduler or profiler says what it will start: Foresight::Declare.
  Result<std::size_t> DeclareStarts(const Foresight::Schedule& schedule);
  // What the configuration says from now on; only the policies, lease and verify_interval are
  // taken, and of the policies what operators have set holds. `text`: what else is to be in the
  // event that tells of it.
  void TakeConfiguration(const ControllerOptions& options, const std::string& text);
  void RecordEvent(const std::string& kind, const std::string& text) {
    state_.history.Record(loop_.Now(), kind, text);
  }

  // For views (controller/api); valid until the next callback of the loop.
  State& state() { return state_; }
  const Foresight& foresight() const { return foresight_; }
  const TreeJobs& jobs() const { return jobs_; }
  const FailurePlans& failure_plans() const { return failure_plans_; }
  const ControllerOptions& options() const { return options_; }
  const ControllerOptions& configured() const { return configured_; }  // without policies
  TimePoint Now() const { return loop_.Now(); }
  EventLoop& loop() { return loop_; }
  // Sets the metrics that nobody counts along: O(flows + links), for whoever reads them.
  void RefreshMetrics();
  WallTime WallNow() const { return options_.wall_clock(); }

 private:
  // How long what can wait waits for agents to acknowledge a change of links.
  static constexpr Duration kAcknowledgementPatience = std::chrono::milliseconds(100);

  // Messages (controller/messages.cc).
  void HandleMessage(PeerId peer, std::string_view bytes);
  void HandleBadMessage(PeerId peer, std::size_t bytes, const Error& error);
  // False: the agent has sent more than it may.
  bool HasAllowance(AgentId id, std::int64_t entries);
  void SendAway(AgentId id);
  // Whose events these are: a host's, or "strangers" for all names that are none.
  std::string_view SourceOf(const std::string& name) const;
  void HandleHello(PeerId peer, std::uint64_t instance, const wire::Hello& hello);
  void HandleHeartbeat(AgentId id, const wire::Heartbeat& heartbeat);
  void StartOver(AgentId id);
  void HandleFlowReport(AgentId id, const wire::FlowReport& report);
  // The slots of those that are new.
  std::vector<FlowSlot> OpenFlows(AgentId id, const wire::FlowReport& report);
  // The flows whose reports foresight is to look at.
  std::span<const FlowSlot> TakeProgress(AgentId id, std::span<const wire::FlowProgress> progress);
  void CloseFlow(FlowSlot slot);
  void CloseMissingFlows(AgentId id, const wire::FlowReport& report);
  void HandleHealth(AgentId id, const wire::PathHealth& health);
  bool TakesVerdict(Flow& flow) const;
  void HandleLinkEvent(AgentId id, const wire::LinkEvent& event);
  // Detection of dead links (controller/detection.cc).
  void TakeAccusation(AgentId id, const Flow& flow, std::uint32_t path);
  void SendQuestions(std::vector<SuspectProbes::Question> questions);
  void TakeWitnesses(AgentId id, const wire::FlowReport& report);
  void UpdateLinkMonitor();
  bool IsFailedByOperator(fabric::LinkId link) const;
  // What has come to wait for the operator, or waits no longer.
  void TellWaitingLinks(const std::set<fabric::LinkId>& before);
  // What an earlier controller heard of a feed holds on, until it is known better.
  void RememberReports(const ReportedLinks& reported);
  void ForgetReport(fabric::LinkId link);
  // Brings what feeds have said into the store; again and again where that fails.
  void StoreReports();
  void TakeRevival(AgentId id, const wire::ProbeReport& report);
  // What other hosts found of links that one blames.
  void TakeSuspectAnswer(AgentId id, const wire::ProbeReport& report);
  void HandleProbeReport(AgentId id, const wire::ProbeReport& report);
  void Refuse(PeerId peer, const std::string& name, const std::string& reason);
  void RecordRefusals();

  // Time.
  double SecondsSince(TimePoint time) const {
    return std::chrono::duration<double>(loop_.Now() - time).count();
  }
  void RequestTurn();
  void Turn();
  void PlaceNew();
  // Plans ahead in the background, piece by piece, with pauses in proportion: what jobs start next,
  // and, when that is planned, failures.
  void MakeRoomForRedrawn();
  void RequestForesight();
  void Foresee();
  void RequestFailurePlans();
  void RefreshFailurePlans();
  // After links have changed, has the ports of all flows looked at, some at a time; first the
  // agents that had to be told have to be heard of, for a while.
  void RequestVerification();
  void VerifySomeFlows();
  void Tick();
  void DropSilentAgents();
  // To those whose turn it is in this tick, so that all are sent one within the interval.
  void SendHeartbeats();
  // The least time between two reports of an agent; 0: as it is configured.
  std::uint64_t ReportIntervalUs() const;
  void VerifyOnePort();
  void TakeFindings(const PathLearner::Findings& findings);

  // Links (controller/operations.cc).
  fabric::LinkState EffectiveState(fabric::LinkId link, const Intents& intents) const;
  // Brings every link to the state that intents and reports give it; the links that changed.
  std::vector<fabric::LinkId> ApplyIntents();
  // The plan for what has failed, if there is one, and its pushes.
  std::vector<Placement::Rerouted> TakeFailurePlan(const std::vector<fabric::LinkId>& changed);
  // All else that is due when links have changed: it looks at every flow. The moves.
  std::vector<Placement::Rerouted> FollowLinkChanges(const std::vector<fabric::LinkId>& changed);
  // On the word of hosts and feeds: the intents as they are, and what follows.
  void ReactToReports();
  ActionOutcome WouldDo(const Intents& intents);

  // Operators' actions and what is stored (controller/operations.cc).
  struct Operation {
    std::string action;  // "fail link", for the audit log
    std::string target;
    OperatorRequest request;
    std::string event;                        // "link_failed"
    std::string subject;                      // "link=leaf0--spine1"
    std::function<Result<Intents>()> change;  // what the intents become; none: they stay
    ActionDone done;
    TimePoint asked{};
  };
  void Submit(Operation operation);
  void TellDryRun(const Operation& operation);
  void StartOperation();
  void HandleCommit(Result<Committed> committed, const std::optional<Intents>& changed);
  void FinishOperation(Result<ActionOutcome> outcome);
  AuditEntry AuditOf(const Operation& operation) const;
  // What has been done, and what is still to be found out of it, as that takes longer.
  struct Done {
    ActionOutcome outcome;
    std::vector<Placement::Rerouted> rerouted;
    std::vector<std::pair<fabric::LinkId, fabric::LinkState>> changed;  // as they were
    std::uint64_t audit_sequence = 0;
    // Agents that are to be heard of first, by the generation of their push; and how many have
    // been.
    std::vector<std::pair<AgentId, std::uint64_t>> told;
    std::size_t heard = 0;
  };
  Done Apply(const Intents& changed);
  // The loads before, the moves by name, the loads now.
  void Reckon(Done& done);
  // Tells what was done as soon as the agents have been heard of, which must not wait for that: or
  // after a while.
  void TellWhenHeard();
  bool HasHeard(Done& done) const;
  void TellDone();
  ActionOutcome Reassign(const OperatorRequest& request);
  Result<Intents> ChangedIntents(const std::string& id, bool is_link, IntentAction action,
                                 const OperatorRequest& request) const;
  // `until` is to come, and only with what can have an end.
  Result<void> CheckEnd(const OperatorRequest& request, bool can_end, std::string_view verb) const;
  // The intents with this value of a weight or policy; none: without it.
  Result<Intents> WithSetting(IntentById Intents::*settings, const std::string& id,
                              const std::optional<std::string>& value,
                              const OperatorRequest& request) const;
  void ApplyPolicies();
  void EndExpiredIntents();
  // Takes out what held until a time that is over; true if there was any.
  bool DropExpired(Intents& intents);
  std::uint64_t EpochToRaiseTo(std::uint64_t claimed);
  void RaiseEpoch(std::uint64_t at_least, std::function<void(Result<void>)> done);
  void RestoreHistory(const std::vector<StoredEvent>& events);
  void StoreEvents();

  // The name of the agent of a NIC.
  const std::string& HostOf(fabric::NodeId nic) const;
  // The agent that can send probes from this NIC, if it is connected.
  std::optional<AgentId> ProbeAgent(fabric::NodeId nic) const;
  bool Send(AgentId id, wire::Body body);
  void SendTo(PeerId peer, wire::Body body);

  ControllerOptions configured_;
  ControllerOptions options_;  // as configured, with the operators' policies
  EventLoop& loop_;
  Bus& bus_;
  Store& store_;
  State state_;
  std::vector<fabric::LinkState> initial_states_;  // by link, as the topology file has them
  std::vector<LivePaths::Way> stranded_;           // by the last change of links
  PathLearner learner_;
  Foresight foresight_;
  FailurePlans failure_plans_;
  LinkMonitor link_monitor_;
  SuspectProbes suspect_probes_;
  RevivalProbes revival_probes_;
  Placement placement_;
  RatePlanner rate_planner_;
  Publisher publisher_;
  TreeJobs jobs_;
  wire::Decoder decoder_;
  std::uint64_t instance_;
  std::uint64_t heartbeats_ = 0;                 // rounds
  const std::unordered_set<std::string> hosts_;  // of the topology, by the names of their agents
  std::size_t strangers_ = 0;                    // agents that are none of these
  bool turn_pending_ = false;
  TimePoint turn_requested_;
  bool is_late_ = false;  // the last turn began late
  TimerPtr foresight_timer_;
  Duration foresight_pause_{};
  TimerPtr failure_timer_;
  Duration failure_pause_{};
  TimerPtr verify_timer_;
  TimePoint links_changed_;
  std::size_t verify_next_ = 0;         // FlowSlot, round and round
  std::size_t verify_left_ = 0;         // slots to be looked at
  std::uint64_t foreseen_changes_ = 0;  // State::path_changes when plans were last asked for
  TimerPtr tick_;
  std::uint64_t ticks_ = 0;
  std::size_t connected_ = 0;  // agents, at the last tick
  TimePoint last_verify_;
  std::uint32_t verify_cursor_ = 0;
  std::deque<Operation> operations_;  // the first is being done
  std::optional<Done> done_;          // of the first, once it is
  TimerPtr tell_timer_;
  std::vector<std::function<void(Result<void>)>> epoch_waiters_;
  std::map<std::pair<std::string, std::string>, std::int64_t> refusals_;  // who, why; untold yet
  TimePoint refusals_told_;
  std::uint64_t highest_believable_epoch_ = 0;  // that an agent can claim to have seen
  bool has_believed_epoch_ = false;
  std::uint64_t stored_event_ = 0;  // the latest that was given to the store
  TimePoint next_expiry_check_;
  IntentEnds intent_ends_;
  bool reports_changed_ = false;  // State::feed_down, since it was last given to the store
  bool storing_reports_ = false;

  Counter& messages_;
  Counter& bad_messages_;
  Counter& peers_refused_;
  Counter& agents_over_limit_;
  Counter& verdicts_ignored_;
  Gauge& events_dropped_;
  LatencyHistogram& decode_seconds_;
  LatencyHistogram& turn_wait_seconds_;
  LatencyHistogram& turn_seconds_;
  Counter& assignments_;
  Counter& flows_placed_;
  LatencyHistogram& assignment_seconds_;
  Counter& flows_moved_;
  Counter& late_turns_;
  LatencyHistogram& plan_seconds_;
  Counter& failure_hits_;
  Counter& failure_misses_;
  LatencyHistogram& failure_seconds_;
  Counter& links_detected_down_;
  Counter& detection_budget_exceeded_;
  Gauge& links_waiting_;
  Counter& recomputations_;
  LatencyHistogram& recompute_seconds_;
  LatencyHistogram& commit_seconds_;
  LatencyHistogram& action_seconds_;
  Gauge& flows_open_;
  Gauge& flows_unroutable_;
  Gauge& max_link_load_;
  Gauge& max_link_load_bound_;
  Gauge& agents_connected_;
  Gauge& topology_version_;
};

}  // namespace espalier::controller
