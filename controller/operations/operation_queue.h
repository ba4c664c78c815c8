#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "controller/operations/action.h"
#include "controller/operations/intent_ends.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "controller/store/store.h"

namespace espalier::controller {

// One action that an operator has asked for.
struct Operation {
  std::string action;  // "fail link", for the audit log
  std::string target;
  OperatorRequest request;
  std::string event;    // "link_failed"
  std::string subject;  // "link=leaf0--spine1"
  // Computes the new intents from those that are in force when the operation begins. Not set: the
  // intents stay, and all flows are assigned from scratch.
  std::function<Result<Intents>()> change;
  ActionDone done;
  TimePoint asked{};
};

// Carries out operators' actions one after the other. Each is durable in the store, with its entry
// in the audit log, before any flow moves. Its outcome is reported when the agents have
// acknowledged it, or after a timeout. The queue also ends intents whose end time has passed.
// Thread safety: the controller's loop thread. The references must outlive it.
class OperationQueue {
 public:
  // `on_outcome` is called when the outcome of an action has been computed: the loop is free again.
  OperationQueue(State& state, ActionTarget& target, const ControllerOptions& options,
                 EventLoop& loop, Store& store, std::function<void()> on_outcome, Metrics& metrics);

  // Calls `done` inside the call for a dry run and where too many wait (kResourceExhausted).
  void Submit(Operation operation);
  // To be called when an agent has acknowledged a push.
  void HandleAck();
  // Removes intents that have ended, and begins maintenance windows whose time has come. One whose
  // beginning would cut off flows waits and is tried again, unless it is forced. To be called
  // periodically.
  void ApplySchedule();
  // Removes from `intents` those that have ended; true if there were any.
  bool DropExpired(Intents& intents);
  // An action waits for acknowledgements of agents: work that can wait should.
  bool AwaitsAgents() const { return timer_ != nullptr; }

 private:
  void CompleteDryRun(const Operation& operation);
  // Why the action requires confirmation; empty: it requires none.
  std::string QuestionFor(const ActionOutcome& outcome) const;
  // Refuses an action that is not confirmed. `changed`: the intents after it; none: recompute.
  Result<void> CheckConfirmed(const OperatorRequest& request,
                              const std::optional<Intents>& changed);
  bool EndExpired();
  void BeginWindows();
  // Whether the window's beginning would cut off flows. Notes that it is held.
  bool IsHeld(const std::string& name, const MaintenanceWindow& window, const Intents& begun);
  void Start();
  void HandleCommit(Result<Committed> committed, const std::optional<Intents>& changed);
  void RecordEvent(const Operation& operation, bool has_intents);
  bool IsAcknowledged();
  void Complete();
  void Finish(Result<ActionOutcome> outcome);
  AuditEntry AuditOf(const Operation& operation) const;

  // The state of the first operation, from when it is durable until its outcome is reported.
  struct Pending {
    AppliedAction applied;
    std::uint64_t audit_sequence = 0;
    // The agents whose acknowledgement is awaited, with the generation of their push.
    std::vector<std::pair<AgentId, std::uint64_t>> awaited;
    std::size_t acknowledged = 0;  // that many of `awaited`, from the front, have acknowledged
  };

  State& state_;
  ActionTarget& target_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  Store& store_;
  std::function<void()> on_outcome_;
  std::deque<Operation> operations_;  // the first one is in progress
  std::optional<Pending> pending_;    // of the first operation, once it is applied
  TimerPtr timer_;                    // ends the wait for acknowledgements
  TimePoint next_window_check_;
  IntentEnds intent_ends_;
  IntentEnds window_begins_;
  LatencyHistogram& commit_seconds_;
  LatencyHistogram& action_seconds_;
};

}  // namespace espalier::controller
