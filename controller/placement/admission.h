#pragma once

#include <cstdint>
#include <span>

#include "controller/paths/path_learner.h"
#include "controller/placement/port_binder.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Flows come and go: finds a new flow's ends and whether it needs paths, and adopts the paths of
// one that was steered before this controller knew it, by asking a probe where its ports lead.
// Thread safety: the controller's loop thread. The references must outlive it.
class Admission {
 public:
  Admission(State& state, PathLearner& learner, PortBinder& ports, const ControllerOptions& options)
      : state_(state), learner_(learner), ports_(ports), options_(options) {}

  // A flow was just opened. `steered_ports`: what an earlier controller gave it (or its agent
  // drew), in the order of its paths (0: unknown); it keeps those paths that a probe can tell.
  void Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports);
  // The flow ends: gives back its paths and ports.
  void Release(FlowSlot slot);

  // Takes over the paths of its subflows that are being adopted, where their ports' are known;
  // whether all are. A path that is dead or drained is not taken over.
  bool Adopt(FlowSlot slot);
  // The agent's flows that no probe has found by now are placed like new ones.
  void EndAdoption(AgentId agent);

 private:
  // Whether both ends are known, and the source is the agent's; then they stand in the flow.
  bool FindEnds(Flow& flow) const;

  State& state_;
  PathLearner& learner_;
  PortBinder& ports_;
  const ControllerOptions& options_;
};

}  // namespace espalier::controller
