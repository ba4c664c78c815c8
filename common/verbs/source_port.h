#pragma once

#include <cstdint>

#include "common/base/result.h"

namespace espalier::verbs {

// RoCEv2 takes a queue pair's UDP source port from the flow label of its address vector, in Linux
// (rdma_flow_label_to_udp_sport) and in the devices that follow it: the two upper bits are set, the
// lower fourteen are the label's, folded. A label of 0 stands for a hash of both numbers of queue
// pairs. So 16,384 ports can be had.
inline constexpr std::uint16_t kFirstRocePort = 0xC000;

// The port of a queue pair with that label (20 bits) and those numbers (24 bits).
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

// A label, never 0, that makes this port, which is kFirstRocePort or above.
constexpr std::uint32_t FlowLabelOf(std::uint16_t source_port) {
  constexpr std::uint32_t kFoldsToNothing = 1U << 14 | 1U;
  const std::uint32_t low = source_port & 0x3FFFU;
  return low == 0 ? kFoldsToNothing : low;
}

// FlowLabelOf any port. Errors: kInvalidArgument below kFirstRocePort.
Result<std::uint32_t> FlowLabelFor(std::uint16_t source_port);

}  // namespace espalier::verbs
