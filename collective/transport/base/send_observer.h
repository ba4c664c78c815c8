#pragma once

#include <cstdint>
#include <memory>

#include "common/base/address/ip_address.h"

namespace espalier::transport {

// Is told when one connection has something to send, by the thread that drives the transport. The
// functions are called for each message, so they must neither wait nor make system calls.
class SendWatch {
 public:
  virtual ~SendWatch() = default;
  // A message of so many bytes waits from now on.
  virtual void HandleQueued(std::uint64_t bytes) = 0;
  // A whole message of so many bytes has been handed to the kernel.
  virtual void HandleSent(std::uint64_t bytes) = 0;
};

// The two ends of a connection over which a rank sends; its own end is the source.
struct ConnectionEnds {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

// Chooses which connections of a rank are watched. Called by the thread that opens the connection.
class SendObserver {
 public:
  virtual ~SendObserver() = default;
  // Null: not of interest. The watch ends with the connection.
  virtual std::unique_ptr<SendWatch> Watch(const ConnectionEnds& ends) = 0;
};

}  // namespace espalier::transport
