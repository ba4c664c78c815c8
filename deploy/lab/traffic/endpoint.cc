#include "deploy/lab/traffic/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace espalier::traffic {

Endpoint::Endpoint(const IpAddress& address, std::uint16_t port) {
  if (address.IsV4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(address.V4());
    std::memcpy(&storage_, &v4, sizeof v4);
    size_ = sizeof v4;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, address.bytes().data(), address.bytes().size());
    std::memcpy(&storage_, &v6, sizeof v6);
    size_ = sizeof v6;
  }
}

}  // namespace espalier::traffic
