#include "agent/flows/guard/recent_moves.h"

#include <algorithm>

namespace espalier::agent {

void RecentMoves::Repeat(TimePoint now, PortTable& ports) {
  while (!moves_.empty() && now - moves_.front().at >= kCrossing) moves_.pop_front();
  for (const Move& move : moves_) {
    const wire::PathSet* const current = ports.Find(move.flow);
    if (current == nullptr) continue;
    wire::PathSet set = *current;
    const auto back = std::ranges::find(set.paths, move.left_port, &wire::FlowPath::source_port);
    const auto next =
        std::ranges::find(set.paths, move.next.source_port, &wire::FlowPath::source_port);
    if (back == set.paths.end() || next != set.paths.end()) continue;
    const std::uint32_t weight = back->weight;
    *back = move.next;
    back->weight = weight;
    set.reason = wire::PathReason::kPathDead;
    static_cast<void>(ports.RerouteLocally(set));
  }
}

}  // namespace espalier::agent
