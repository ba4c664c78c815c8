#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/strong_id.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/path_map.h"
#include "controller/prediction/flow_slot.h"
#include "controller/routing/online/online_assigner.h"
#include "controller/state/flows/edge_budget.h"
#include "controller/state/flows/job_names.h"
#include "proto/messages.h"

namespace espalier::controller {

using AgentId = StrongId<struct AgentTag>;  // dense; one per agent name ever seen

enum class FlowStatus : std::uint8_t {
  kNew,         // waits for the next assignment
  kAdopting,    // was steered before this controller knew it; a probe is finding its path
  kLearning,    // has its paths, but a port is missing; keeps its earlier ports until then
  kRouted,      // has its paths and their ports
  kLocal,       // both ends on one switch: needs no port
  kFixed,       // a rank plan has its path and port: only watched
  kUnsteered,   // operators do not want it steered: stays on ECMP; its path is one that was seen
  kUnroutable,  // an end is unknown, or no path is usable: stays on ECMP
};
std::string_view FlowStatusName(FlowStatus status);  // "ROUTED", ...

// Which decision put a flow on its path.
enum class DecisionOrigin : std::uint8_t {
  kReactive,   // assigned when it arrived
  kPredicted,  // precomputed for a predicted start
  kFailure,    // the backup path for a failure of a link or switch on its path
  kManual,     // an operator's action
};
std::string_view DecisionOriginName(DecisionOrigin origin);  // "REACTIVE", ...

// One of the paths of a flow: a flow that is split over k queue pairs has k, each with a port.
struct Subflow {
  std::optional<SubflowId> id;  // identifies the decided path in FlowPaths; none: no path
  std::uint16_t port = 0;       // as pushed to the agent; 0: none
  fabric::PathIndex port_path;  // the path that the port takes, which may still be an old one
  bool urgent = false;          // the path that its port takes has died
  bool adopting = false;        // the path of its port, which others chose, is being found
  // Where its host goes by itself when the path is dead (Standbys); kNoPath: nowhere.
  std::int32_t standby_path = kNoPath;
  std::uint16_t standby_port = 0;  // that takes it; 0: none is known yet
  // Its part of the flow, in 1 / kLoadUnit; 0: all subflows of the flow have the same (ShareOf).
  std::int64_t share = 0;
};

// What is known of the flow that leads back on the same connection: the other end's queue pair.
enum class OtherEnd : std::uint8_t {
  kUnknown,  // no agent reports it, or it is no queue pair
  kQuiet,    // has sent nothing, and neither has this one
  kAnswers,  // sends acknowledgements only: FlowDecision::is_answering
  kSends,    // sends data, too
};
std::string_view OtherEndName(OtherEnd end);  // "UNKNOWN", ...

// A flow as its agent reported it. Only FlowIntake writes it, when the flow is opened; the job of a
// flow without a job name may change later (FlowTable::SetJob).
struct ReportedFlow {
  AgentId agent;
  wire::LocalFlowId local;
  std::uint32_t job = 0;  // index into JobNames
  bool has_job_name = true;
  IpAddress source_address;
  IpAddress destination_address;
  std::uint16_t own_port = 0;  // the port that it was opened with
  std::uint32_t local_qpn = 0;
  std::uint32_t remote_qpn = 0;
  std::uint8_t protocol = 0;
  std::uint8_t max_paths = 1;
  bool movable = true;
  bool keeps_rate = false;     // something enforces its rate limit
  bool keeps_weights = false;  // it sends over its paths in proportion to their weights
  bool path_fixed = false;     // its path is in a rank plan, and it is only watched
  // How its transport waits: until it repeats what is not acknowledged (0: unknown; the largest
  // value: so long or longer), and how often it repeats it.
  std::uint32_t timeout_us = 0;
  std::uint32_t repetitions = 0;
  TimePoint started;
  TimePoint reported;  // when its first report reached the controller
};

// The decision for a flow. Only FlowDecisions writes it, once the flow is open. `key` is valid if
// both ends are known.
struct FlowDecision {
  FlowStatus status = FlowStatus::kNew;
  fabric::PortKey key;
  fabric::NodeId source_leaf;
  fabric::NodeId destination_leaf;
  std::vector<Subflow> subflows;   // empty: LOCAL, or an end is unknown
  std::uint64_t max_rate_bps = 0;  // 0: no limit
  wire::PathReason reason = wire::PathReason::kAssigned;
  DecisionOrigin origin = DecisionOrigin::kReactive;
  bool is_parked = false;    // idle: keeps its paths and ports, but its load does not count
  bool is_on_plan = false;   // its paths are those that its job's phases were planned with
  bool is_balanced = false;  // its shares are those that SplitBalancer gave it
  // It has sent nothing while the other end of its connection sends, so that its packets are that
  // end's acknowledgements. It is parked on the same path in the opposite direction.
  bool is_answering = false;
  OtherEnd other_end = OtherEnd::kUnknown;
  std::optional<FlowSlot> opposite;  // the flow of the other end: Connections
  // The version of the topology in which its agent rerouted it locally; -1: not lately. Until the
  // topology changes, no plan moves it: the path that it left may be dead, and this one works.
  std::int64_t rerouted_in = -1;
  // Its program does not send in proportion to weights, whatever it said (WeightWatch).
  bool ignores_weights = false;
};

struct Flow : ReportedFlow, FlowDecision {
  // Whether it may be divided unequally.
  bool KeepsWeights() const { return keeps_weights && !ignores_weights; }
};

// The part of its flow that a subflow carries, in 1 / kLoadUnit.
inline std::int64_t ShareOf(const FlowDecision& flow, const Subflow& subflow) {
  return subflow.share > 0 ? subflow.share
                           : kLoadUnit / static_cast<std::int64_t>(flow.subflows.size());
}

// The same as a fraction.
inline double PartOf(const FlowDecision& flow, const Subflow& subflow) {
  return static_cast<double>(ShareOf(flow, subflow)) / static_cast<double>(kLoadUnit);
}

// Whether the decision for a flow has been pushed. Written by the publisher and by PushQueue.
struct PushState {
  std::uint64_t generation = 0;   // of the push that carried the latest pushed decision; 0: none
  bool is_dirty = false;          // the decision has changed since that push
  bool has_new_standbys = false;  // only its standby paths have
};

// The progress of a flow by its last report. It is separate from Flow because millions of reports
// arrive per second.
struct FlowActivity {
  std::uint64_t remaining_bytes = 0;
  std::uint64_t outstanding_bytes = 0;
  std::uint64_t achieved_bps = 0;
  // The largest total of sent, in-flight and remaining bytes ever reported; 0: none reported.
  std::uint64_t announced_bytes = 0;
  // The largest total of sent and in-flight bytes ever reported.
  std::uint64_t posted_bytes = 0;
  TimePoint next_review{};  // earlier reports are not reviewed: FlowTable::IgnoreReportsBefore
  // The number of its changes between busy and idle since it opened: odd while it is busy. 0: its
  // agent does not report them, and it is busy while it has bytes to send.
  std::uint32_t edges = 0;
  std::uint16_t duty_permille = 0;  // if it toggles too often to be followed: how busy it is
  wire::FlowState state = wire::FlowState::kActive;
  EdgeBudget budget{EdgeBudget::kOfFlow};  // over it, the flow counts as busy all the time
  TimePoint last_edge{};                   // of the changes that were told

  bool ReportsEdges() const { return edges > 0; }
  bool IsBusy() const {
    if (ReportsEdges()) return edges % 2 == 1 || duty_permille > 0 || budget.is_over();
    return remaining_bytes > 0 || outstanding_bytes > 0;
  }
};

// A flow that has become busy or idle, or has more to send, according to its progress. Of several
// changes between two reports, the last two are told.
struct MessageChange {
  FlowSlot slot;
  bool was_busy = false;
  bool is_busy = false;
  std::uint64_t new_bytes = 0;  // announced by this report and not before
  TimePoint at{};               // when it became busy or idle, by its agent
};

// The open elephants of all agents.
// Thread safety: the controller's loop thread. References are valid until the next Open.
// Complexity: Open, Close and Find are O(log flows of the agent). Open and Close also shift the
// agent's entries with higher ids, which are few if ids ascend with time. Flows lie in dense
// arrays.
class FlowTable {
 public:
  // The flow must not be open.
  FlowSlot Open(Flow flow);
  void Close(FlowSlot slot);

  bool IsOpen(FlowSlot slot) const { return slots_[slot.Index()].has_value(); }
  std::optional<FlowSlot> Find(AgentId agent, wire::LocalFlowId local) const;
  const Flow& At(FlowSlot slot) const { return *slots_[slot.Index()]; }
  const FlowActivity& ActivityOf(FlowSlot slot) const { return activity_[slot.Index()]; }
  const PushState& PushOf(FlowSlot slot) const { return pushes_[slot.Index()]; }
  PushState& PushOf(FlowSlot slot) { return pushes_[slot.Index()]; }
  void SetJob(FlowSlot slot, std::uint32_t job);
  // Whether a flow may have become kNew since the last TakeNew.
  bool HasNew() const { return !new_.empty(); }
  // The flows that became kNew since the last call. A flow may occur twice, and may have been
  // closed or changed its status since.
  std::vector<FlowSlot> TakeNew() { return std::exchange(new_, {}); }
  struct Taken {
    std::span<const MessageChange> changes;
    std::span<const FlowSlot> due;  // flows to review: IgnoreReportsBefore
    // Flows that claim more edges than agents report (EdgeBudget), since this report, or an edge
    // before an earlier one.
    std::size_t implausible = 0;
  };
  // Takes an agent's report on its flows; ignores flows that are not open. A flow has at most two
  // changes, which do not lie before its earlier ones, and none while it is over its budget.
  // `late`: how long before `now` the agent sent it, so that edges lie where they were. O(flows
  // reported) if their ids ascend. The result is valid until the next call.
  Taken TakeProgress(AgentId agent, std::span<const wire::FlowProgress> progress, TimePoint now,
                     Duration late = {});
  // Leaves the flow out of Taken::due before this time. By default every report is due.
  void IgnoreReportsBefore(FlowSlot slot, TimePoint time) {
    activity_[slot.Index()].next_review = time;
  }
  // Ascending by local id.
  std::vector<FlowSlot> OfAgent(AgentId agent) const;
  std::vector<FlowSlot> All() const;  // ascending by slot
  // The agent's first flow whose local id is higher than `local` (none: its first). O(log n).
  std::optional<FlowSlot> FindAfter(AgentId agent, std::optional<wire::LocalFlowId> local) const;
  std::size_t size() const { return size_; }
  std::size_t slot_count() const { return slots_.size(); }  // open and free
  std::size_t CountOfAgent(AgentId agent) const;
  std::size_t rate_keepers() const { return rate_keepers_; }  // open flows with keeps_rate
  // Grows with each change of a flow between busy and idle.
  std::uint64_t busy_changes() const { return busy_changes_; }

  // Jobs that have open flows or are kept (KeepJob), and some whose flows are closed.
  const JobNames& jobs() const { return jobs_; }
  // Returns the index of this name. Until the job's first flow is open, closing another flow may
  // make the table forget it.
  std::uint32_t JobIndex(const std::string& name, AgentId named_by) {
    return jobs_.Intern(name, named_by.Index());
  }
  // Keeps the job's name from KeepJob to ReleaseJob, even if it has no open flow.
  void KeepJob(std::uint32_t index) { jobs_.Begin(index); }
  void ReleaseJob(std::uint32_t index) { jobs_.End(index); }
  const std::string& JobName(std::uint32_t index) const { return jobs_.At(index); }
  // The indices of forgotten jobs, which may name other jobs after this call.
  std::vector<std::uint32_t> TakeForgottenJobs() { return jobs_.TakeForgotten(); }

 private:
  friend class FlowDecisions;  // the only writer of decisions, with its part PortDecisions
  friend class PortDecisions;

  Flow& Mutable(FlowSlot slot) { return *slots_[slot.Index()]; }
  void SetStatus(FlowSlot slot, FlowStatus status);

  struct Entry {
    wire::LocalFlowId local;
    FlowSlot slot;
  };
  using AgentFlows = std::vector<Entry>;  // ascending by local

  // Begins to load what those who handle a change of this flow read, so that the flows of a report
  // need not wait for memory one after the other.
  static void Prefetch(const Flow& flow);
  // Whether these edges, which a report claims, exceed the budget of the flow or its agent.
  bool ExceedsBudget(AgentId agent, FlowActivity& activity, std::uint32_t edges, TimePoint now);
  // Appends to changes_ what a report has changed. False: a new edge lies before an earlier one.
  // `sent`: when the report was.
  bool NoteChanges(FlowSlot slot, const FlowActivity& before, const wire::FlowProgress& report,
                   TimePoint sent);
  static AgentFlows::const_iterator LowerBound(const AgentFlows& flows, wire::LocalFlowId local);

  std::vector<std::optional<Flow>> slots_;
  std::vector<FlowActivity> activity_;  // by slot
  std::vector<PushState> pushes_;       // by slot
  std::vector<MessageChange> changes_;  // result of the last TakeProgress
  std::vector<FlowSlot> due_;           // the same
  std::vector<FlowSlot> free_;
  std::vector<FlowSlot> new_;  // became kNew since the last TakeNew
  std::vector<AgentFlows> by_agent_;
  std::vector<EdgeBudget> budgets_;  // by agent
  JobNames jobs_;
  std::size_t size_ = 0;
  std::size_t rate_keepers_ = 0;
  std::uint64_t busy_changes_ = 0;
};

}  // namespace espalier::controller
