#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace espalier::agent {

// A connected queue pair of this host, as the kernel lists it, whichever process made it.
struct KernelQueuePair {
  std::string device;
  std::uint32_t number = 0;
  std::uint32_t remote_number = 0;
  std::uint32_t next_packet = 0;  // packet sequence number that it sends next, 24 bits
  std::uint32_t process = 0;      // 0: it belongs to the kernel
  std::string owner;              // the kernel's module, if it belongs to the kernel
};

// Lists the connected queue pairs (RC, UC, XRC) of all devices that are ready to send, over netlink
// (as `rdma resource show qp`). The kernel does not give their addresses.
// Errors: kUnsupported if the kernel has no RDMA, kUnavailable if it does not answer within 20 ms,
// else kInternal with the system's reason.
Result<std::vector<KernelQueuePair>> ListQueuePairs();

// Adds the queue pairs of one answer of the kernel, given without its netlink header. Skips
// truncated entries and unknown attributes.
void ReadQueuePairs(std::span<const std::byte> answer, std::vector<KernelQueuePair>& pairs);

}  // namespace espalier::agent
