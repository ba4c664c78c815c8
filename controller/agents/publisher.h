#pragma once

#include <cstdint>
#include <functional>

#include "common/base/metrics.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Brings every agent from what it has acknowledged to what is decided. It pushes differences to an
// agent that is in step, and everything to one that is not, after a new connection or a lost push.
// Reconnections, losses, restarts and changes share this one code path. An agent that asks for
// everything gets it once a second.
// Thread safety: the controller's loop thread.
class Publisher {
 public:
  // False: the message was dropped (the queue is full, or the peer is gone).
  using SendFunction = std::function<bool(AgentId, wire::Body)>;

  Publisher(State& state, const ControllerOptions& options, SendFunction send, Metrics& metrics);

  // Pushes the queued changes to their agents; agents whose adoption is not over wait.
  void PushChanges(TimePoint now);
  // The same for this agent alone.
  void PushChangesOf(AgentId id, TimePoint now);
  // Whether an agent has not acknowledged its last push. O(agents), but an agent that has
  // acknowledged is not visited again before its next push.
  bool AwaitsAcknowledgements();
  void HandleAck(AgentId id, const wire::Ack& ack, TimePoint now);
  // Queues a full push for agents that have not acknowledged their last push in time.
  void ResendUnacknowledged(TimePoint now);

  static constexpr Duration kFullPushInterval = std::chrono::seconds(1);

 private:
  void Push(AgentId id, TimePoint now);
  wire::PathPush Compose(AgentId id, const PushQueue::Changes& changes, TimePoint now);
  void Describe(AgentId id, wire::LocalFlowId local, TimePoint now, wire::PathPush& push);
  // Adds the flow's standby paths to its paths, if it has any, as far as a set has room.
  static void AppendStandbys(const Flow& flow, wire::PathSet& set);
  // Sends the rank plans that belong to the push of this generation; returns how many.
  std::uint32_t SendPlans(AgentId id, bool full, std::set<RankOfJob>& changed);
  void Record(AgentId id, const Flow& flow, const Subflow& subflow, TimePoint now);
  bool MayPush(AgentId id, TimePoint now) const;
  bool IsHeld(AgentId id, TimePoint now) const;

  State& state_;
  const ControllerOptions& options_;
  SendFunction send_;
  std::size_t first_awaited_ = 0;  // all agents before it have acknowledged
  Counter& pushes_;
  Counter& full_pushes_;
  Counter& plans_;
  LatencyHistogram& ack_latency_;
  LatencyHistogram& steer_latency_;
};

}  // namespace espalier::controller
