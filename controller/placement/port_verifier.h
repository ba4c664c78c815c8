#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/base/event_loop.h"
#include "controller/paths/path_learner.h"
#include "controller/placement/placement.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Verifies by probes that ports in use still take their paths: one port every verify_interval, and
// after a change of links all ports, in batches.
// Thread safety: the controller's loop thread. The references must outlive it.
class PortVerifier {
 public:
  // How long verification waits for agents to acknowledge the pushes after a change of links.
  static constexpr Duration kAcknowledgementPatience = std::chrono::milliseconds(100);

  struct Callbacks {
    // Whether pushes to agents are not acknowledged yet; these have priority over probes.
    std::function<bool()> awaits_acknowledgements;
    std::function<void()> request_turn;  // called when probes may have to be ordered
  };
  PortVerifier(State& state, PathLearner& learner, Placement& placement,
               const ControllerOptions& options, EventLoop& loop, Callbacks callbacks);

  // Starts verifying the ports of all flows and edges, after a change of links.
  void HandleLinkChange();
  // Verifies one port if verify_interval has passed. To be called periodically.
  void Tick();

 private:
  void VerifySome();
  void VerifyNextSlot();
  void VerifyNextEdge();
  void VerifyOnePort();

  State& state_;
  PathLearner& learner_;
  Placement& placement_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  Callbacks callbacks_;
  TimerPtr timer_;
  TimePoint links_changed_;
  std::size_t next_slot_ = 0;   // FlowSlot, modulo the number of slots
  std::size_t slots_left_ = 0;  // to verify after a change of links
  EdgeName last_edge_;          // the edge verified last
  std::size_t edges_left_ = 0;  // to verify after a change of links
  TimePoint last_;              // when Tick last verified a port
  std::uint32_t cursor_ = 0;    // of the ports that Tick verifies
};

}  // namespace espalier::controller
