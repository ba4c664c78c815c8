#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/base/address/ip_address.h"

namespace espalier::agent {

// Draws source ports for flows whose path is dead: random ones, as the agent does not know which
// path a port takes (RLM 3.5.5), that no elephant of the host uses towards the same destination.
// Thread safety: one thread. Complexity: O(log ports in use) for each attempt, of which most draws
// need one.
class PortDraw {
 public:
  using PortInUse = std::pair<IpAddress, std::uint16_t>;  // destination and port

  // The seed determines which ports are drawn.
  explicit PortDraw(std::uint64_t seed) : random_(seed) {}

  void SetInUse(std::vector<PortInUse> in_use);
  // Returns none of the ports in `without`, unless nearly all are in use.
  std::uint16_t Draw(const IpAddress& destination, std::span<const std::uint16_t> without);

 private:
  std::mt19937_64 random_;
  std::vector<PortInUse> in_use_;  // ascending
};

}  // namespace espalier::agent
