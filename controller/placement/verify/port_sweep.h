#pragma once

#include <cstddef>
#include <cstdint>

#include "controller/state/state.h"

namespace espalier::controller {

// Visits all flows and edges in slices, between which they may change: the slots of the flow table
// in order, then the edges by name. What is there from Start to the end is visited once.
// Thread safety: the controller's loop thread. The state must outlive it.
class PortSweep {
 public:
  explicit PortSweep(const State& state) : state_(state) {}

  void Start() {
    slots_left_ = state_.flows.slot_count();
    edges_left_ = state_.edges.all().size();
  }
  bool IsOver() const { return slots_left_ + edges_left_ == 0; }
  std::size_t left() const { return slots_left_ + edges_left_; }

  // Visits up to `most` of them: on_flow(slot) for open flows, on_edge(edge).
  template <typename OnFlow, typename OnEdge>
  void Visit(std::size_t most, const OnFlow& on_flow, const OnEdge& on_edge) {
    for (; most > 0 && !IsOver(); --most) {
      if (slots_left_ > 0) {
        --slots_left_;
        const FlowSlot slot(static_cast<std::uint32_t>(next_slot_++ % state_.flows.slot_count()));
        if (state_.flows.IsOpen(slot)) on_flow(slot);
      } else {
        --edges_left_;
        if (const EdgeReservation* edge = NextEdge()) on_edge(*edge);
      }
    }
  }

 private:
  // The edge after the last one; null if there are none.
  const EdgeReservation* NextEdge();

  const State& state_;
  std::size_t next_slot_ = 0;  // FlowSlot, modulo the number of slots
  std::size_t slots_left_ = 0;
  EdgeName last_edge_;
  std::size_t edges_left_ = 0;
};

}  // namespace espalier::controller
