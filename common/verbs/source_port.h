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
std::uint16_t SourcePortOf(std::uint32_t flow_label, std::uint32_t local_number,
                           std::uint32_t remote_number);
// A label, never 0, that makes this port. Errors: kInvalidArgument below kFirstRocePort.
Result<std::uint32_t> FlowLabelFor(std::uint16_t source_port);

}  // namespace espalier::verbs
