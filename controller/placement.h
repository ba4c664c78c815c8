#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/options.h"
#include "controller/path_learner.h"
#include "controller/state.h"

namespace espalier::controller {

// One flow that an action moves (or would).
struct FlowMove {
  std::string flow;
  std::string job;
  std::string from;  // the switches between the leaves; "" = ECMP
  std::string to;
};

// Decides path and port of every flow. Live flows keep their paths: only new flows and those
// whose path broke are placed; Recompute places all anew on the operator's word.
// All decisions end in State (status, path, port, dirty); nothing is sent here.
// Thread safety: the controller's loop thread.
class Placement {
 public:
  Placement(State& state, PathLearner& learner, const ControllerOptions& options)
      : state_(state), learner_(learner), options_(options) {}

  // A flow was just opened: finds its ends and whether it needs a path; `steered` by an earlier
  // controller: keep its path if a probe can tell which it is.
  void Admit(FlowSlot slot, bool steered);
  // The flow ends: gives back path and port.
  void Release(FlowSlot slot);

  // Assigns paths to all new flows at once, by job and then flow (Algorithm 1, lowest spine
  // first), and ports where the map knows them. The number of flows placed.
  std::size_t PlaceNew();
  // The map has learned something of this key: gives ports to flows that wait for one, and other
  // ports to flows whose port turned out to lead elsewhere.
  void Revisit(const fabric::PortKey& key);
  // Adopting flows that no probe has found: they are placed like new ones.
  void EndAdoption(AgentId agent);

  // Flows on paths that are no longer usable are placed anew: at once where the path is dead, at
  // a message boundary where it is drained.
  std::vector<FlowMove> MoveOffUnusable();
  // A link is usable again: flows that had no path are placed.
  void RetryUnroutable();
  // Places all flows anew, in order, from empty loads. With dry_run only tells.
  std::vector<FlowMove> Recompute(bool dry_run);

  // The agent left a dead path by itself and draws its own port: finds out where it is now.
  void HandleRedraw(FlowSlot slot, std::uint16_t port);

 private:
  std::vector<FlowSlot> InOrder(std::vector<FlowSlot> slots) const;
  void SetStatus(FlowSlot slot, FlowStatus status);
  void SetPath(Flow& flow, std::optional<fabric::PathIndex> path);
  void SetPort(Flow& flow, std::uint16_t port, wire::PathReason reason);
  void MarkDirty(Flow& flow);
  // kRouted if the map knows a port for the flow's path, else kLearning and a probe is asked for.
  void ChoosePortFor(FlowSlot slot, wire::PathReason reason);
  bool Adopt(FlowSlot slot);
  std::string Via(const Flow& flow, std::optional<fabric::PathIndex> path);

  State& state_;
  PathLearner& learner_;
  const ControllerOptions& options_;
};

}  // namespace espalier::controller
