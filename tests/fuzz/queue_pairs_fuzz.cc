// The kernel's netlink answers about queue pairs of devices with unknown drivers.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agent/host/queue_pair_list.h"
#include "common/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<espalier::agent::KernelQueuePair> pairs;
  espalier::agent::ReadQueuePairs(std::as_bytes(std::span(data, size)), pairs);
  // Each queue pair has at least the headers of its entry, its type and its state.
  ESPALIER_CHECK(pairs.size() <= size / 12, "pairs={} size={}", pairs.size(), size);
  for (const espalier::agent::KernelQueuePair& pair : pairs) {
    ESPALIER_CHECK(pair.owner.size() <= size && pair.device.size() <= size);
  }
  return 0;
}
