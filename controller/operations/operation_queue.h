#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "controller/operations/action.h"
#include "controller/operations/intent_ends.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "controller/store/store.h"

namespace espalier::controller {

// Something that an operator has asked for.
struct Operation {
  std::string action;  // "fail link", for the audit log
  std::string target;
  OperatorRequest request;
  std::string event;    // "link_failed"
  std::string subject;  // "link=leaf0--spine1"
  // What the intents become of those that there are when its turn comes; not set: they stay, and
  // all flows are assigned from scratch.
  std::function<Result<Intents>()> change;
  ActionDone done;
  TimePoint asked{};
};

// Does what operators ask for, one after the other: each is durable in the store, with its line in
// the audit log, before anything moves. What it did is told when the agents have acknowledged it,
// or after a while. Ends what holds until a time, too.
// Thread safety: the controller's loop thread. The references must outlive it.
class OperationQueue {
 public:
  // `on_outcome`: the outcome of an action has been computed, which keeps agents no longer waiting.
  OperationQueue(State& state, ActionTarget& target, const ControllerOptions& options,
                 EventLoop& loop, Store& store, std::function<void()> on_outcome, Metrics& metrics);

  // A dry run is answered inside the call; so is one too many (kResourceExhausted).
  void Submit(Operation operation);
  // An agent has acknowledged a push.
  void HandleAck();
  // Takes out of the intents what held until a time that is over. To be called now and then.
  void EndExpired();
  // True if there was any.
  bool DropExpired(Intents& intents);
  // The agents that an action has moved flows of are awaited: what can wait is to wait.
  bool AwaitsAgents() const { return timer_ != nullptr; }

 private:
  void CompleteDryRun(const Operation& operation);
  void Start();
  void HandleCommit(Result<Committed> committed, const std::optional<Intents>& changed);
  void RecordEvent(const Operation& operation, bool has_intents);
  bool IsAcknowledged();
  void Complete();
  void Finish(Result<ActionOutcome> outcome);
  AuditEntry AuditOf(const Operation& operation) const;

  // The first operation, from when it is durable until its outcome is told.
  struct Pending {
    AppliedAction applied;
    std::uint64_t audit_sequence = 0;
    // Agents that are to be heard of first, by the generation of their push; and how many have
    // been.
    std::vector<std::pair<AgentId, std::uint64_t>> told;
    std::size_t heard = 0;
  };

  State& state_;
  ActionTarget& target_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  Store& store_;
  std::function<void()> on_outcome_;
  std::deque<Operation> operations_;  // the first is being done
  std::optional<Pending> pending_;    // of the first, once it is applied
  TimerPtr timer_;                    // ends the wait for agents
  TimePoint next_expiry_check_;
  IntentEnds intent_ends_;
  LatencyHistogram& commit_seconds_;
  LatencyHistogram& action_seconds_;
};

}  // namespace espalier::controller
