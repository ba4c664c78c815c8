#include "common/sim/link_troubles.h"

namespace espalier::sim {

Transit LinkTroubles::Carry(std::span<const fabric::DirectedLink> links, std::uint8_t protocol,
                            std::uint8_t dscp) {
  constexpr Duration kLinkDelay = std::chrono::microseconds(5);
  Transit transit{.arrives = true};
  for (const fabric::DirectedLink link : links) {
    transit.delay += kLinkDelay;
    const auto found = troubles_.find(link.Index());
    if (found == troubles_.end()) continue;
    const auto& [loss, delay, marks] = found->second;
    const bool is_concerned =
        loss.protocol.value_or(protocol) == protocol && loss.dscp.value_or(dscp) == dscp;
    if (is_concerned && random_.Chance(loss.probability)) return {};
    transit.delay += delay;
    transit.is_marked = transit.is_marked || marks;
  }
  return transit;
}

}  // namespace espalier::sim
