// The kernel's netlink answers about TCP sockets, also of kernels with another tcp_info.
#include <cstddef>
#include <cstdint>
#include <span>

#include "agent/host/tcp_sockets.h"
#include "common/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto socket = espalier::agent::ReadTcpSocket(std::as_bytes(std::span(data, size)));
  // It has at least a header and the part of tcp_info that is read.
  ESPALIER_CHECK(!socket || size >= 72 + 104, "size={}", size);
  return 0;
}
