#pragma once

#include <span>

#include "common/base/metrics.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Steers acknowledgements. A reliable connection has a queue pair at each host, and what the
// receiving one sends back takes the path of its own source port. If that path is dead, the sender
// waits for acknowledgements and stops, whatever path its data take.
//
// An end is answering while it has sent less than a sixteenth of what the other one has: it sends
// acknowledgements, and perhaps small messages, such as the credits of NCCL's receivers. Its flow
// adds no load, and is parked on the opposite direction of the data's path. So a link takes both
// directions of a connection or none of them, and when the data move, the acknowledgements move in
// the same turn. An end that sends more is an elephant like any other and chooses its paths by
// load; then its acknowledgements travel with its data.
//
// Thread safety: the controller's loop thread. The references must outlive it.
class AnsweringEnds {
 public:
  AnsweringEnds(const State& state, FlowDecisions& decisions, PortBinder& ports, Metrics& metrics);

  // The flow has become busy or idle, or has more to send. O(1), unless it becomes known now that
  // an end is answering, or that it is not any more.
  void HandleProgress(FlowSlot slot);
  // These flows have just been opened, and their first progress is known.
  void HandleOpened(std::span<const FlowSlot> slots);
  // The flow does not answer any more. Must be called before the flow is closed.
  void End(FlowSlot slot);
  // Moves answering ends to the opposite directions of the paths of flows that have moved since the
  // last call. O(moved flows x paths of a pair).
  void FollowMoves();

 private:
  // Whether the flow sends little beside the one at the other end.
  bool Answers(FlowSlot slot, FlowSlot opposite) const;
  void Begin(FlowSlot slot);
  // Puts the flow on the opposite direction of the path of the one at the other end.
  void Follow(FlowSlot slot);

  const State& state_;
  FlowDecisions& decisions_;
  PortBinder& ports_;
  Gauge& count_gauge_;
  Counter& moved_;
  int count_ = 0;  // answering ends
};

}  // namespace espalier::controller
