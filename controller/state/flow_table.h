#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/strong_id.h"
#include "common/fabric/path_map.h"
#include "controller/prediction/flow_slot.h"
#include "controller/routing/online_assigner.h"
#include "controller/state/job_names.h"
#include "proto/messages.h"

namespace espalier::controller {

using AgentId = StrongId<struct AgentTag>;  // dense; one per agent name ever seen

enum class FlowStatus : std::uint8_t {
  kNew,         // to be placed by the next assignment
  kAdopting,    // steered before this controller knew it: its path is being found by a probe
  kLearning,    // has its paths, but not yet a port for each: what it had before holds until then
  kRouted,      // has its paths and their ports
  kLocal,       // both ends on one switch: no port needed
  kUnroutable,  // an end is unknown, or no path is usable: on ECMP
};
std::string_view FlowStatusName(FlowStatus status);  // "ROUTED", ...

// Which decision put a flow on its path.
enum class DecisionOrigin : std::uint8_t {
  kReactive,   // assigned when it started
  kPredicted,  // planned before it started
  kFailure,    // planned for the failure of a link or switch that it was on
  kManual,     // an operator's action
};
std::string_view DecisionOriginName(DecisionOrigin origin);  // "REACTIVE", ...

// One of the paths of a flow: a flow that is split over k queue pairs has k, each with a port.
struct Subflow {
  std::optional<SubflowId> subflow;  // holds the path that is decided; none: it has none
  std::uint16_t port = 0;            // given to the agent; 0: none
  fabric::PathIndex port_path;       // where the port leads: to the path, once such a port is known
  bool urgent = false;               // the path that its port takes died under it
  bool adopting = false;             // its port was chosen by others: where does it lead?
};

// A flow as its agent reported it. Written when it is opened, by FlowIntake alone.
struct ReportedFlow {
  AgentId agent;
  wire::LocalFlowId local;
  std::uint32_t job = 0;  // index into JobNames
  IpAddress source_address;
  IpAddress destination_address;
  std::uint16_t own_port = 0;  // the port that it was opened with
  std::uint32_t local_qpn = 0;
  std::uint32_t remote_qpn = 0;
  std::uint8_t protocol = 0;
  std::uint8_t max_paths = 1;
  bool movable = true;
  TimePoint started;
  TimePoint reported;  // when the controller heard of it
};

// What was decided for a flow: by placement, and its rate by RatePlanner. `key` holds where both
// ends are known.
struct FlowDecision {
  FlowStatus status = FlowStatus::kNew;
  fabric::PortKey key;
  fabric::NodeId source_leaf;
  fabric::NodeId destination_leaf;
  std::vector<Subflow> subflows;   // empty: LOCAL, or an end is unknown
  std::uint64_t max_rate_bps = 0;  // 0: no limit
  wire::PathReason reason = wire::PathReason::kAssigned;
  DecisionOrigin origin = DecisionOrigin::kReactive;
};

struct Flow : ReportedFlow, FlowDecision {};

// How far the decision for a flow has come to its agent. Written by the publisher, and by
// PushQueue.
struct PushState {
  std::uint64_t generation = 0;  // of the push that carried the present decision; 0: none yet
  bool is_dirty = false;         // decided anew since that push
};

// How far a flow is, by the last report. Apart from Flow, as millions come in a second.
struct FlowActivity {
  std::uint64_t remaining_bytes = 0;
  std::uint64_t outstanding_bytes = 0;
  std::uint64_t achieved_bps = 0;
  // The most that its host has ever said it sends in all, since it was opened. 0: nothing said.
  std::uint64_t announced_bytes = 0;
  TimePoint next_review{};  // reports from then on are looked at: FlowTable::IgnoreReportsBefore
  wire::FlowState state = wire::FlowState::kActive;

  bool IsBusy() const { return remaining_bytes > 0 || outstanding_bytes > 0; }
};

// What the progress of a flow says of its messages.
struct MessageChange {
  FlowSlot slot;
  bool was_busy = false;
  bool is_busy = false;
  std::uint64_t new_bytes = 0;  // to send, beyond what was known
};

// The elephants that are open now, of all agents.
// Thread safety: the controller's loop thread. References are valid until the next Open.
// Complexity: Open, Close and Find are O(log flows of the agent), and move the agent's later flows
// where ids do not ascend with time; all flows are dense arrays.
class FlowTable {
 public:
  // The flow must not be open.
  FlowSlot Open(Flow flow);
  void Close(FlowSlot slot);

  bool IsOpen(FlowSlot slot) const { return slots_[slot.Index()].has_value(); }
  std::optional<FlowSlot> Find(AgentId agent, wire::LocalFlowId local) const;
  Flow& At(FlowSlot slot) { return *slots_[slot.Index()]; }
  const Flow& At(FlowSlot slot) const { return *slots_[slot.Index()]; }
  const FlowActivity& ActivityOf(FlowSlot slot) const { return activity_[slot.Index()]; }
  const PushState& PushOf(FlowSlot slot) const { return pushes_[slot.Index()]; }
  PushState& PushOf(FlowSlot slot) { return pushes_[slot.Index()]; }
  void SetStatus(FlowSlot slot, FlowStatus status);
  // Some flow may have become kNew since TakeNew was last called.
  bool HasNew() const { return !new_.empty(); }
  // Those that became kNew since the last call; some more than once, some no longer open or new.
  std::vector<FlowSlot> TakeNew() { return std::exchange(new_, {}); }
  struct Taken {
    std::span<const MessageChange> changes;  // flows that have begun or ended a message
    std::span<const FlowSlot> due;           // whose time to be looked at has come
  };
  // Takes what an agent reports of its flows; of those that are not open, nothing.
  // O(flows reported) where their ids ascend. Valid until the next call.
  Taken TakeProgress(AgentId agent, std::span<const wire::FlowProgress> progress, TimePoint now);
  // Reports of the flow before this time are not looked at; without a word, all are.
  void IgnoreReportsBefore(FlowSlot slot, TimePoint time) {
    activity_[slot.Index()].next_review = time;
  }
  // Ascending by local id.
  std::vector<FlowSlot> OfAgent(AgentId agent) const;
  std::vector<FlowSlot> All() const;  // ascending by slot
  // The first of the agent's flows, or the first whose local id is higher. O(log n).
  std::optional<FlowSlot> FindAfter(AgentId agent, std::optional<wire::LocalFlowId> local) const;
  std::size_t size() const { return size_; }
  std::size_t slot_count() const { return slots_.size(); }  // open ones and others
  std::size_t CountOfAgent(AgentId agent) const;

  // Of open flows, those that are kept, and some that had flows.
  const JobNames& jobs() const { return jobs_; }
  // Until its first flow is open it may be forgotten when another flow is closed.
  std::uint32_t JobIndex(const std::string& name, AgentId named_by) {
    return jobs_.Intern(name, named_by.Index());
  }
  // For what else is of a job than its open flows: its name is not forgotten until then.
  void KeepJob(std::uint32_t index) { jobs_.Begin(index); }
  void ReleaseJob(std::uint32_t index) { jobs_.End(index); }
  const std::string& JobName(std::uint32_t index) const { return jobs_.At(index); }
  // The indices of jobs that are forgotten, which stand for others from the next call on.
  std::vector<std::uint32_t> TakeForgottenJobs() { return jobs_.TakeForgotten(); }

 private:
  struct Entry {
    wire::LocalFlowId local;
    FlowSlot slot;
  };
  using AgentFlows = std::vector<Entry>;  // ascending by local

  static AgentFlows::const_iterator LowerBound(const AgentFlows& flows, wire::LocalFlowId local);

  std::vector<std::optional<Flow>> slots_;
  std::vector<FlowActivity> activity_;  // by slot
  std::vector<PushState> pushes_;       // by slot
  std::vector<MessageChange> changes_;  // of the progress at hand
  std::vector<FlowSlot> due_;           // the same
  std::vector<FlowSlot> free_;
  std::vector<FlowSlot> new_;  // became kNew since they were last taken
  std::vector<AgentFlows> by_agent_;
  JobNames jobs_;
  std::size_t size_ = 0;
};

}  // namespace espalier::controller
