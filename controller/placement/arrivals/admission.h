#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "controller/paths/path_learner.h"
#include "controller/settings/options.h"
#include "controller/state/flows/flow_decisions.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Admits arriving flows. Admission finds a flow's ends and whether it
// needs paths. A flow that was steered before this controller knew it keeps its paths (adoption).
// Thread safety: the controller's loop thread. The references must outlive it.
class Admission {
 public:
  Admission(const State& state, FlowDecisions& decisions, PathLearner& learner,
            const ControllerOptions& options)
      : state_(state), decisions_(decisions), learner_(learner), options_(options) {}

  // Admits a flow that was just opened. `steered_ports`: the ports that an earlier controller gave
  // it or that its agent drew, in the order of its subflows (0: unknown).
  // A pair of NICs has 16,384 ports. So a flow beyond kMostFlowsOfPair of its key is refused, as if
  // an end was unknown, and stays on ECMP until it ends; one beyond kMostSplitOfPair has one path.
  void Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports);
  static constexpr std::size_t kMostFlowsOfPair = 4'096;
  static constexpr std::size_t kMostSplitOfPair = 512;
  // How many flows were refused since the last call, and the key of the last one.
  struct Refused {
    std::size_t flows = 0;
    fabric::PortKey key;
  };
  Refused TakeRefused() { return std::exchange(refused_, {}); }
  // Adopts the paths of those subflows whose ports the path map knows. A path that is dead or
  // drained is not adopted. Returns whether the map knew all ports.
  bool Adopt(FlowSlot slot);
  // Makes the agent's flows whose ports are still unknown kNew, so that they are placed as new.
  void EndAdoption(AgentId agent);

 private:
  // Sets the flow's ends; false if one is unknown or the source is not on the agent's host.
  bool FindEnds(FlowSlot slot);

  const State& state_;
  FlowDecisions& decisions_;
  PathLearner& learner_;
  const ControllerOptions& options_;
  Refused refused_;
};

}  // namespace espalier::controller
