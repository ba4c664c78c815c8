#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace espalier::agent {

// A connection of a queue pair on this host, as the kernel knows it, whoever made it.
struct KernelQueuePair {
  std::string device;
  std::uint32_t number = 0;
  std::uint32_t remote_number = 0;
  std::uint32_t next_packet = 0;  // 24 bits: the packet number that it sends next
  std::uint32_t process = 0;      // 0: the kernel's own
  std::string owner;              // then the kernel's module
};

// The connections (RC, UC, XRC) of all devices that can send, over netlink (as `rdma resource show
// qp`). The kernel says nothing of their addresses.
// Errors: kUnsupported where the kernel has no RDMA, kUnavailable where it does not answer within
// 20 ms, else kInternal with the system's reason.
Result<std::vector<KernelQueuePair>> ListQueuePairs();

// Adds those of one answer of the kernel, without its netlink header. What is cut off or of
// unknown kinds is left out.
void ReadQueuePairs(std::span<const std::byte> answer, std::vector<KernelQueuePair>& pairs);

}  // namespace espalier::agent
