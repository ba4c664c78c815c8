#pragma once

#include <span>
#include <vector>

#include "common/base/event_loop.h"
#include "controller/agents/unnamed_jobs.h"
#include "controller/placement/arrivals/bursts.h"
#include "controller/placement/placement.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Takes agents' reports of flows that open, progress and end, and updates what depends on them: the
// flow table, placement, the rounds of jobs, predictions, and the health of links, which the
// traffic shows. The name of a job is what a program says: the flows of a host that has no rank of
// a started job are not counted to it, so that they get neither its weight nor its steering, but as
// flows that no program has named.
// Thread safety: the controller's loop thread. The references must outlive it.
class FlowIntake {
 public:
  FlowIntake(State& state, Placement& placement, Bursts& bursts, StartPredictor& predictor,
             const ControllerOptions& options, EventLoop& loop);

  enum class Outcome {
    kNothing,     // no decision is pending
    kNeedsTurn,   // a decision or a push is pending
    kReportLost,  // an earlier report is missing, and this one was ignored
  };
  Outcome Handle(AgentId id, const wire::FlowReport& report);

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
  std::vector<FlowSlot> Open(AgentId id, const wire::FlowReport& report);
  struct TakenProgress {
    std::span<const FlowSlot> due;  // flows whose progress the predictor is to look at
    bool needs_turn = false;
  };
  // `learns`: the predictor learns from flows that become busy.
  TakenProgress TakeProgress(AgentId id, std::span<const wire::FlowProgress> progress, bool learns);
  // Begins to load what these changes read.
  void Prefetch(std::span<const MessageChange> changes) const;
  // Whether the flow counts as started whenever it becomes busy, and not when it opens.
  bool FollowsBursts(FlowSlot slot) const;
  void Close(FlowSlot slot);
  void RecordEnd(FlowSlot slot);
  void SetJob(FlowSlot slot, std::uint32_t job);
  void ForgetJobs();
  // Records an event if the flow's transport stands still for long after a loss.
  void WarnOfTimeout(const Flow& flow);
  void CloseMissing(AgentId id, const wire::FlowReport& report);

  State& state_;
  Placement& placement_;
  Bursts& bursts_;
  StartPredictor& predictor_;
  UnnamedJobs unnamed_jobs_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  std::vector<JobRounds::Sender> senders_;  // open flows, by slot; their ends never change
};

}  // namespace espalier::controller
