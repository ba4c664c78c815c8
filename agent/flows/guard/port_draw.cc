#include "agent/flows/guard/port_draw.h"

#include <algorithm>

namespace espalier::agent {
namespace {

constexpr std::uint16_t kFirstRocePort = 0xC000;
constexpr int kRocePortMask = 0x3FFF;
constexpr int kDrawAttempts = 64;

}  // namespace

void PortDraw::SetInUse(std::vector<PortInUse> in_use) {
  in_use_ = std::move(in_use);
  std::sort(in_use_.begin(), in_use_.end());
}

std::uint16_t PortDraw::Draw(const IpAddress& destination, std::span<const std::uint16_t> without) {
  std::uint16_t port = 0;
  for (int attempt = 0; attempt < kDrawAttempts; ++attempt) {
    port = static_cast<std::uint16_t>(kFirstRocePort +
                                      (static_cast<int>(random_() & 0xFFFF) & kRocePortMask));
    const bool is_used =
        std::binary_search(in_use_.begin(), in_use_.end(), std::pair(destination, port));
    if (!is_used && std::ranges::find(without, port) == without.end()) break;
  }
  return port;  // nearly all ports are in use, so this one may be shared
}

}  // namespace espalier::agent
