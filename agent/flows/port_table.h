#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "agent/flows/flow_actuator.h"
#include "agent/flows/flow_source.h"
#include "proto/messages.h"

namespace espalier::agent {

// Which paths each flow was given and by whom: the agent's side of the controller's plan.
//
// Pushes are fenced by epoch and generation. A push of an epoch below the highest seen is stale.
// A difference applies only on top of the generation before it (of an epoch not seen before: on
// top of nothing); otherwise the agent asks for a full push. A generation that was applied before
// is acknowledged again and changes nothing.
//
// What a full push repeats is left alone, so that a controller that comes back moves nothing and
// a port that the agent drew by itself meanwhile stays; what a difference says overrides.
// Thread safety: one thread. Complexity: O(log flows) a path set.
class PortTable {
 public:
  explicit PortTable(FlowActuator& actuator) : actuator_(actuator) {}

  wire::Ack HandlePush(const wire::PathPush& push);
  // Forgets flows that have ended, and hands flows that have opened the paths that were pushed
  // ahead of them. What an agent before this one gave a flow, and is still in force, counts as
  // pushed: a controller may adopt it, leave it out of a full push, or let its lease end. Input:
  // all open flows, ascending by id.
  void HandleFlows(std::span<const FlowSample> flows);
  // The agent leaves a path by itself. Errors: those of FlowActuator::Apply; nothing changes then.
  Result<void> RerouteLocally(const wire::PathSet& paths);
  // Everything back to ECMP; the next push has to be full. Returns how many flows went back.
  std::size_t Expire();

  // The paths in force; nullptr where the flow is on plain ECMP.
  const wire::PathSet* Find(wire::LocalFlowId flow) const;
  // In force as the controller pushed it, not drawn by the agent.
  bool IsSteered(wire::LocalFlowId flow, std::uint16_t port) const;

  std::uint64_t highest_epoch() const { return epoch_; }
  // Of that epoch; 0 where the next push has to be full.
  std::uint64_t applied_generation() const { return has_base_ ? generation_ : 0; }

 private:
  struct Entry {
    wire::PathSet pushed;    // no paths: nothing was, the agent drew
    wire::PathSet in_force;  // no paths: the flow has not opened yet
  };

  void Adopt(std::span<const FlowSample> flows);
  bool ApplySet(const wire::PathSet& set, bool full);
  void Withdraw(wire::LocalFlowId flow);
  bool HasPushed() const;

  FlowActuator& actuator_;
  std::uint64_t epoch_ = 0;
  std::uint64_t generation_ = 0;
  bool has_base_ = true;  // generation_ is what the table holds; else only a full push helps
  std::map<wire::LocalFlowId, Entry> entries_;
};

}  // namespace espalier::agent
