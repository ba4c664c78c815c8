#include "collective/transport/verbs/lane_pool.h"

#include <algorithm>
#include <utility>

#include "common/verbs/source_port.h"

namespace espalier::transport {

std::optional<std::size_t> LaneForMessage(std::span<const LaneLoad> lanes, std::size_t next) {
  const auto cost = [](const LaneLoad& lane) { return std::pair(lane.failures, lane.is_spare); };
  const auto least = cost(*std::ranges::min_element(lanes, {}, cost));
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const std::size_t at = (next + i) % lanes.size();
    if (!lanes[at].can_take || cost(lanes[at]) != least) continue;
    if (!chosen || lanes[at].in_flight < lanes[*chosen].in_flight) chosen = at;
  }
  return chosen;
}

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
  loads_.clear();
  for (const auto& lane : lanes_) {
    loads_.push_back({lane->CanTake(), lane->failures, lane->is_spare, lane->in_flight()});
  }
  const auto chosen = LaneForMessage(loads_, next_);
  if (!chosen) return nullptr;
  next_ = (*chosen + 1) % lanes_.size();
  return lanes_[*chosen].get();
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
