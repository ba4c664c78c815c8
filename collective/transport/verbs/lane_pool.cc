#include "collective/transport/verbs/lane_pool.h"

#include <algorithm>
#include <utility>

#include "common/verbs/source_port.h"

namespace espalier::transport {

LanePool::LanePool(const Lane::LaneResources& resources, int count,
                   std::span<const std::uint16_t> ports) {
  for (int i = 0; i < count; ++i) {
    lanes_.push_back(std::make_unique<Lane>(resources, static_cast<std::uint32_t>(i)));
  }
  SetPorts(ports);
}

Result<void> LanePool::Make() {
  for (const auto& lane : lanes_) {
    auto made = lane->Make();
    if (!made) return made;
  }
  return {};
}

void LanePool::SetPorts(std::span<const std::uint16_t> ports) {
  for (const auto& lane : lanes_) {
    const std::size_t index = lane->index();
    lane->is_spare = index >= std::max<std::size_t>(1, ports.size());
    if (index >= ports.size()) continue;
    lane->port = ports[index];
    lane->failures = 0;
  }
}

void LanePool::MarkFailed(Lane& lane) {
  lane.has_failed = true;
  ++lane.failures;
  lane.port = DrawPort(lane.port_in_use);
}

Lane* LanePool::ChooseForMessage() {
  const auto cost = [](const Lane& lane) { return std::pair(lane.failures, lane.is_spare); };
  const auto best =
      std::min_element(lanes_.begin(), lanes_.end(),
                       [&](const auto& a, const auto& b) { return cost(*a) < cost(*b); });
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[(next_ + i) % lanes_.size()];
    if (!lane.CanTake() || cost(lane) != cost(**best)) continue;
    next_ = (lane.index() + 1) % lanes_.size();
    return &lane;
  }
  return nullptr;
}

Lane* LanePool::ChooseForNotice() {
  if (Lane* const lane = ChooseForMessage(); lane != nullptr) return lane;
  const auto ready =
      std::find_if(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->CanTake(); });
  return ready == lanes_.end() ? nullptr : ready->get();
}

std::uint16_t LanePool::DrawPort(std::uint16_t without) {
  std::uniform_int_distribution<int> ports(verbs::kFirstRocePort, UINT16_MAX);
  while (true) {
    const auto port = static_cast<std::uint16_t>(ports(random_));
    if (port != without) return port;
  }
}

}  // namespace espalier::transport
