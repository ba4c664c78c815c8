#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collective/transport/store.h"
#include "collective/transport/transport.h"
#include "common/base/result.h"

namespace espalier::transport {

struct TcpOptions {
  int slots = 4;
  std::size_t slot_bytes = 512 << 10;
  // The address that the others reach this rank at, IPv4 or IPv6, in digits.
  std::string address = "127.0.0.1";
  // The local port to connect to that endpoint from; 0: any. Asked of the higher rank of the two.
  // With it the fabric's hash takes the path that was planned for the connection.
  std::function<std::uint16_t(Endpoint)> source_port;
};

// A TCP connection for each endpoint: several to one peer are independent of one another, and of
// their channels' order. The kernel's buffers come on top of the slots. Driven by the calling
// thread alone; there is no thread of its own.
// Errors: kInvalidArgument for an address that is none; kUnavailable for a port that cannot be
// bound or a peer that cannot be reached or does not come; kFailedPrecondition for one of another
// version or with other sizes of slots.
Result<std::unique_ptr<Transport>> JoinTcp(Store& store, const std::string& name, int rank,
                                           int size, const TcpOptions& options);

}  // namespace espalier::transport
