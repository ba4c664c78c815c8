#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/prediction/flow_slot.h"

namespace espalier::controller {

// The known phases of jobs that repeat them: which of their flows are busy together. A flow may be
// in several phases of its job. Flows that are in none may be busy at any time.
// Thread safety: the controller's loop thread.
class FlowPhases {
 public:
  using Job = std::vector<std::vector<FlowSlot>>;  // the flows of each of its phases
  struct Place {
    std::uint32_t job = 0;  // dense numbers
    std::uint32_t phase = 0;
  };

  // O(flows in phases).
  void Set(std::span<const Job> jobs);
  void Forget(FlowSlot slot);
  // The phases that the flow is in, ascending.
  std::span<const Place> Of(FlowSlot slot) const {
    return slot.Index() < places_.size() ? std::span<const Place>(places_[slot.Index()])
                                         : std::span<const Place>();
  }
  bool IsEmpty() const { return flows_ == 0; }

 private:
  std::vector<std::vector<Place>> places_;  // by slot
  std::size_t flows_ = 0;                   // that are in some phase
};

}  // namespace espalier::controller
