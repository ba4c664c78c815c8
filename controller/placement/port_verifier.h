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

// Has ports in use looked at by probes, whether they still lead to their paths: one every
// verify_interval, for ever, and after links have changed all of them, some at a time.
// Thread safety: the controller's loop thread. The references must outlive it.
class PortVerifier {
 public:
  // How long what can wait waits for agents to acknowledge a change of links.
  static constexpr Duration kAcknowledgementPatience = std::chrono::milliseconds(100);

  struct Callbacks {
    // Pushes to agents are not acknowledged yet: these come first, for a while.
    std::function<bool()> awaits_acknowledgements;
    std::function<void()> request_turn;  // there may be probes to order
  };
  PortVerifier(State& state, PathLearner& learner, Placement& placement,
               const ControllerOptions& options, EventLoop& loop, Callbacks callbacks);

  // Links have changed: the ports of all flows and edges are to be looked at.
  void HandleLinkChange();
  // To be called now and then.
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
  std::size_t next_slot_ = 0;   // FlowSlot, round and round
  std::size_t slots_left_ = 0;  // to be looked at
  EdgeName last_edge_;          // that was looked at, round and round
  std::size_t edges_left_ = 0;  // to be looked at
  TimePoint last_;              // when one port was last looked at
  std::uint32_t cursor_ = 0;    // of single ports
};

}  // namespace espalier::controller
