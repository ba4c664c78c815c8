#pragma once

#include <cstdint>

#include "common/fabric/ecmp/path_map.h"
#include "controller/state/flows/flow_paths.h"
#include "controller/state/flows/flow_table.h"
#include "controller/state/flows/push_queue.h"

namespace espalier::controller {

// The part of FlowDecisions that concerns the source ports of subflows: no other class writes them.
// It keeps FlowPaths::ports in step (a port of a subflow is taken under the flow's key), and marks
// flows for a push where that is said. `index` is that of a subflow.
// Thread safety: the controller's loop thread. The references must outlive it. O(1).
class PortDecisions {
 public:
  PortDecisions(FlowTable& flows, FlowPaths& paths, PushQueue& pushes)
      : flows_(flows), paths_(paths), pushes_(pushes) {}

  // Gives the subflow this port, which must be free and takes this path, in place of its earlier
  // one, and has it pushed.
  void Set(FlowSlot slot, std::uint32_t index, std::uint16_t port, fabric::PathIndex path);
  // The subflow has no port any more and goes back to ECMP. Pushed.
  void Drop(FlowSlot slot, std::uint32_t index);
  // As Set, but not pushed. False, without any change, if the port is taken.
  bool Exchange(FlowSlot slot, std::uint32_t index, std::uint16_t port, fabric::PathIndex path);
  // The port of the subflow takes this path, as a probe has shown.
  void Correct(FlowSlot slot, std::uint32_t index, fabric::PathIndex path);
  // Whether any other port is better than the present one, as the path that it takes is dead.
  void SetUrgent(FlowSlot slot, std::uint32_t index, bool urgent);
  // Frees a port of this flow that none of its subflows has.
  void Release(FlowSlot slot, std::uint16_t port);

  // Sets the standby path of the subflow (kNoPath: none), without a port. The port of its earlier
  // one becomes free.
  void SetStandby(FlowSlot slot, std::uint32_t index, std::int32_t path);
  // Sets the port that takes its standby path (0: none), which must be free, in place of the
  // earlier one.
  void SetStandbyPort(FlowSlot slot, std::uint32_t index, std::uint16_t port);
  // Has the flow's standby paths pushed.
  void PushStandbys(FlowSlot slot) { pushes_.MarkStandbys(slot); }

 private:
  FlowTable& flows_;
  FlowPaths& paths_;
  PushQueue& pushes_;
};

}  // namespace espalier::controller
