#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "agent/flows/transport_state.h"
#include "common/base/unique_fd.h"

namespace espalier::agent {

// A TCP connection of this process to itself over loopback.
class LoopbackConnection {
 public:
  // `v4`: the address of both ends over IPv4, which must be this host's.
  explicit LoopbackConnection(int family, std::uint32_t v4 = INADDR_LOOPBACK)
      : is_v4_(family == AF_INET), v4_(v4) {
    listener_ = UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sender_ = UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage address = Loopback();
    socklen_t size = sizeof(address);
    if (::bind(listener_.get(), Generic(address), Size()) != 0 ||
        ::listen(listener_.get(), 1) != 0 ||
        ::getsockname(listener_.get(), Generic(address), &size) != 0 ||
        ::connect(sender_.get(), Generic(address), Size()) != 0) {
      error_ = std::strerror(errno);
      return;
    }
    receiver_ = UniqueFd(::accept(listener_.get(), nullptr, nullptr));
    destination_port_ = PortOf(address);
    size = sizeof(address);
    ::getsockname(sender_.get(), Generic(address), &size);
    source_port_ = PortOf(address);
  }

  // Why there is no connection; "" if there is one.
  const std::string& error() const { return error_; }
  int sender() const { return sender_.get(); }
  void CloseSender() { sender_ = UniqueFd(); }
  TcpConnection Sender() const { return {Address(), Address(), source_port_, destination_port_}; }
  TcpConnection Receiver() const { return {Address(), Address(), destination_port_, source_port_}; }

 private:
  static sockaddr* Generic(sockaddr_storage& address) {
    return reinterpret_cast<sockaddr*>(&address);
  }
  socklen_t Size() const { return is_v4_ ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }
  IpAddress Address() const {
    return is_v4_ ? IpAddress::FromV4(v4_) : IpAddress::Parse("::1").value();
  }
  sockaddr_storage Loopback() const {
    sockaddr_storage address{};
    if (is_v4_) {
      const sockaddr_in v4{.sin_family = AF_INET, .sin_addr = {htonl(v4_)}};
      std::memcpy(&address, &v4, sizeof(v4));
    } else {
      const sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
      std::memcpy(&address, &v6, sizeof(v6));
    }
    return address;
  }
  std::uint16_t PortOf(const sockaddr_storage& address) const {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof(v4));  // the port is at the same place in both
    return ntohs(v4.sin_port);
  }

  const bool is_v4_;
  const std::uint32_t v4_;
  UniqueFd listener_;  // stays open
  UniqueFd sender_;
  UniqueFd receiver_;
  std::uint16_t source_port_ = 0;
  std::uint16_t destination_port_ = 0;
  std::string error_;
};

}  // namespace espalier::agent
