#pragma once

#include <sys/socket.h>

#include <cstdint>

#include "common/base/address/ip_address.h"

namespace espalier::traffic {

inline constexpr std::uint16_t kTrafficPort = 4791;  // the port of RoCEv2
inline constexpr std::uint16_t kFirstSourcePort = 49'152;
inline constexpr int kSourcePortCount = 16'384;

// An address and port in the form of the socket calls, for IPv4 or IPv6.
class Endpoint {
 public:
  Endpoint(const IpAddress& address, std::uint16_t port);

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

}  // namespace espalier::traffic
