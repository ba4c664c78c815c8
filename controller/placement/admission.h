#pragma once

#include <cstdint>
#include <span>

#include "controller/paths/path_learner.h"
#include "controller/placement/port_binder.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Admits arriving flows and releases departing ones. Admission finds a flow's ends and whether it
// needs paths. A flow that was steered before this controller knew it keeps its paths (adoption).
// Thread safety: the controller's loop thread. The references must outlive it.
class Admission {
 public:
  Admission(State& state, PathLearner& learner, PortBinder& ports, const ControllerOptions& options)
      : state_(state), learner_(learner), ports_(ports), options_(options) {}

  // Admits a flow that was just opened. `steered_ports`: the ports that an earlier controller gave
  // it or that its agent drew, in the order of its subflows (0: unknown).
  void Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports);
  // Frees the paths and ports of a flow that ends.
  void Release(FlowSlot slot);

  // Adopts the paths of those subflows whose ports the path map knows. A path that is dead or
  // drained is not adopted. Returns whether the map knew all ports.
  bool Adopt(FlowSlot slot);
  // Makes the agent's flows whose ports are still unknown kNew, so that they are placed as new.
  void EndAdoption(AgentId agent);

 private:
  // Sets the flow's ends; false if one is unknown or the source is not on the agent's host.
  bool FindEnds(Flow& flow) const;

  State& state_;
  PathLearner& learner_;
  PortBinder& ports_;
  const ControllerOptions& options_;
};

}  // namespace espalier::controller
