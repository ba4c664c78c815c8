#pragma once

#include <cstddef>
#include <vector>

#include "common/fabric/ecmp/path_map.h"
#include "controller/placement/ports/port_binder.h"
#include "controller/state/flows/flow_decisions.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Takes TCP flows off ports to which their acknowledgements would come over a link that is down, to
// other ports of their paths, as far as there are any. It owns the queue of flows to inspect.
// Thread safety: the controller's loop thread. The references must outlive it.
class ReturnPathWatch {
 public:
  static constexpr std::size_t kReturnsAtOnce = 256;

  ReturnPathWatch(const State& state, FlowDecisions& decisions, PortBinder& ports)
      : state_(state), decisions_(decisions), ports_(ports) {}

  // Links have changed: queues all TCP flows. O(flows).
  void HandleLinkChange();
  // The map has changed for this key, which no flow has. If it is that of what comes back to flows
  // while a link is down, these are inspected at once.
  void HandleReturnPathChange(const fabric::PortKey& back);
  // Inspects up to kReturnsAtOnce queued flows; each takes some 10 to 100 us.
  void RerouteDeadReturns();

 private:
  void Inspect(FlowSlot slot);

  const State& state_;
  FlowDecisions& decisions_;
  PortBinder& ports_;
  std::vector<FlowSlot> queue_;  // some may have been closed since
};

}  // namespace espalier::controller
