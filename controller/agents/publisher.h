#pragma once

#include <cstdint>
#include <functional>

#include "common/base/metrics.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Brings every agent from what it has acknowledged to what is decided: differences where the
// agent is in step, everything where it is not (new connection, lost push). One code path for
// reconnects, losses, restarts and plain changes.
// Thread safety: the controller's loop thread.
class Publisher {
 public:
  // False: the message was dropped (no room, peer gone).
  using SendFunction = std::function<bool(AgentId, wire::Body)>;

  Publisher(State& state, const ControllerOptions& options, SendFunction send, Metrics& metrics);

  // Pushes what has changed for these flows' agents; agents whose adoption is not over wait.
  void PushChanges(TimePoint now);
  // The same for this agent alone.
  void PushChangesOf(AgentId id, TimePoint now);
  // An agent has not acknowledged the last push to it. O(agents), of which those that have
  // acknowledged since the last call are not looked at again.
  bool AwaitsAcknowledgements();
  void HandleAck(AgentId id, const wire::Ack& ack, TimePoint now);
  // An agent that has not acknowledged its last push for long gets everything again.
  void ResendUnacknowledged(TimePoint now);

 private:
  void Push(AgentId id, TimePoint now);
  wire::PathPush Compose(AgentId id, const PushQueue::Changes& changes, TimePoint now);
  void Describe(AgentId id, wire::LocalFlowId local, TimePoint now, wire::PathPush& push);
  // Sends the plans of ranks that go with the push of this generation; how many.
  std::uint32_t SendPlans(AgentId id, bool full, std::set<RankOfJob>& changed);
  void Record(AgentId id, const Flow& flow, const Subflow& subflow, TimePoint now);
  bool MayPush(AgentId id) const;
  bool IsHeld(AgentId id) const;

  State& state_;
  const ControllerOptions& options_;
  SendFunction send_;
  std::size_t first_awaited_ = 0;  // no agent before it is awaited
  Counter& pushes_;
  Counter& full_pushes_;
  Counter& plans_;
  LatencyHistogram& ack_latency_;
  LatencyHistogram& steer_latency_;
};

}  // namespace espalier::controller
