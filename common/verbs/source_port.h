#pragma once

#include <cstdint>

#include "common/base/result.h"

namespace espalier::verbs {

// Linux (rdma_flow_label_to_udp_sport), and the devices that follow it, derive a queue pair's UDP
// source port from the flow label of its address vector. The upper two bits are set, and the lower
// fourteen are the label, folded. Label 0 means a hash of the numbers of both queue pairs. So there
// are 16,384 ports.
inline constexpr std::uint16_t kFirstRocePort = 0xC000;

// Returns the port of a queue pair with this label (20 bits) and these numbers (24 bits).
constexpr std::uint16_t SourcePortOf(std::uint32_t flow_label, std::uint32_t local_number,
                                     std::uint32_t remote_number) {
  constexpr std::uint32_t kLabelMask = 0xFFFFF;
  std::uint32_t label = flow_label & kLabelMask;
  if (label == 0) {
    std::uint64_t product = std::uint64_t{local_number} * remote_number;
    product ^= product >> 20;
    product ^= product >> 40;
    label = static_cast<std::uint32_t>(product) & kLabelMask;
  }
  return static_cast<std::uint16_t>(kFirstRocePort | ((label & 0x3FFF) ^ (label >> 14)));
}

// Returns a label, never 0, that gives this port. Requires a port of at least kFirstRocePort.
constexpr std::uint32_t FlowLabelOf(std::uint16_t source_port) {
  constexpr std::uint32_t kFoldsToNothing = 1U << 14 | 1U;
  const std::uint32_t low = source_port & 0x3FFFU;
  return low == 0 ? kFoldsToNothing : low;
}

// Like FlowLabelOf, for any port. Errors: kInvalidArgument below kFirstRocePort.
Result<std::uint32_t> FlowLabelFor(std::uint16_t source_port);

}  // namespace espalier::verbs
