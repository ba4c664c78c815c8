#pragma once

#include <functional>
#include <span>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/agents/flow_rounds.h"
#include "controller/agents/report_clock.h"
#include "controller/agents/unnamed_jobs.h"
#include "controller/ledger/burst_watch.h"
#include "controller/placement/arrivals/bursts.h"
#include "controller/placement/placement.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Takes agents' reports of flows that open, progress and end, and updates what depends on them: the
// flow table, placement, the rounds of jobs, the bursts of the ledger, predictions, and the health
// of links, which the traffic shows. The name of a job is what a program says: the flows of a host
// that has no rank of a started job are not counted to it, so that they get neither its weight nor
// its steering, but as flows that no program has named. Thread safety: the controller's loop
// thread. The references must outlive it.
class FlowIntake {
 public:
  FlowIntake(State& state, Placement& placement, Bursts& bursts, StartPredictor& predictor,
             BurstWatch& watch, const ControllerOptions& options, EventLoop& loop,
             std::function<void()> request_turn);

  // Requests a turn if a decision or a push is pending then. What a report changes of open flows is
  // handed to each module once, as a whole. False: an earlier report is missing, and this one was
  // ignored.
  bool Handle(AgentId id, const wire::FlowReport& report);

  // Closes all flows of the agent.
  void CloseAll(AgentId id);
  // Closes the flows of agents that have been gone for longer than the lease, and ends adoptions
  // that have timed out. To be called periodically.
  void Tick();

 private:
  // Whether flows of this agent may have the name of this job, which is a claim: of a job that was
  // started, only hosts of its ranks. O(ranks).
  bool MayNameJob(AgentId id, const std::string& job) const;
  // Returns the slots of the flows that are new.
  // `sent`: when the agent sent the report.
  std::vector<FlowSlot> Open(AgentId id, const wire::FlowReport& report, TimePoint sent);
  // How late the report is handled, as far as its agent's clock shows that.
  Duration LatenessOf(AgentId id, const wire::FlowReport& report, TimePoint now);
  // Hands the changes of a report to each module that follows them. True: they need a turn.
  // `learns`: predictions are learned from flows that become busy.
  bool HandleChanges(std::span<const MessageChange> changes, bool learns, TimePoint now);
  // The changes between busy and idle that count as starts and ends of bursts. Valid until the next
  // call.
  std::span<const MessageChange> FindEdges(std::span<const MessageChange> changes);
  // Whether the flow counts as started whenever it becomes busy, and not when it opens.
  bool FollowsBursts(FlowSlot slot) const;
  void Close(FlowSlot slot);
  void RecordEnd(FlowSlot slot);
  void SetJob(FlowSlot slot, std::uint32_t job);
  void ForgetJobs();
  // Records an event if flows of the agent claim too many edges.
  void WarnOfEdges(const Agent& agent, std::size_t flows);
  // Records an event if the flow's transport stands still for long after a loss.
  void WarnOfTimeout(const Flow& flow);
  void CloseMissing(AgentId id, const wire::FlowReport& report);

  State& state_;
  Placement& placement_;
  Bursts& bursts_;
  StartPredictor& predictor_;
  BurstWatch& watch_;
  FlowRounds rounds_;
  UnnamedJobs unnamed_jobs_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  std::function<void()> request_turn_;
  std::vector<ReportClock> clocks_;   // by agent
  std::vector<MessageChange> edges_;  // result of the last FindEdges
};

}  // namespace espalier::controller
