#include "controller/placement/verify/port_sweep.h"

namespace espalier::controller {

const EdgeReservation* PortSweep::NextEdge() {
  const EdgeReservations::ByName& edges = state_.edges.all();
  if (edges.empty()) return nullptr;
  auto next = edges.upper_bound(last_edge_);
  if (next == edges.end()) next = edges.begin();
  last_edge_ = next->first;
  return &next->second;
}

}  // namespace espalier::controller
