#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::telemetry {

// A UDP socket whose datagrams are read many at a time (recvmmsg). Thread safety: none.
class DatagramSocket {
 public:
  static constexpr std::size_t kBatch = 64;
  static constexpr std::size_t kMostBytes = 9'216;  // of a datagram; the rest is cut off

  // address: "0.0.0.0:6343", "[::]:6343"; port 0 for any. `buffer_bytes`: what the kernel is asked
  // to hold while the process is busy; it grants at most net.core.rmem_max.
  // Errors: those of io::ParseSocketAddress; kUnavailable and kPermissionDenied of the system.
  static Result<DatagramSocket> Open(const std::string& address, std::size_t buffer_bytes);

  int fd() const { return fd_.get(); }
  const std::string& address() const { return address_; }     // with the actual port
  std::size_t buffer_bytes() const { return buffer_bytes_; }  // as the kernel granted

  using Handle = std::function<void(const IpAddress& source, std::span<const std::uint8_t> bytes)>;
  // Reads what has come, at most `batches` x kBatch datagrams. A datagram that is longer than
  // kMostBytes is handed on with that many, which no parser takes for a whole one.
  void Read(std::size_t batches, const Handle& handle);

 private:
  struct Buffers;
  DatagramSocket(UniqueFd fd, std::string address, std::size_t buffer_bytes);

  UniqueFd fd_;
  std::string address_;
  std::size_t buffer_bytes_ = 0;
  std::shared_ptr<Buffers> buffers_;
};

}  // namespace espalier::telemetry
