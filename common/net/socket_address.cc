#include "common/net/socket_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

namespace espalier::io {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

tl::unexpected<Error> Malformed(const std::string& text) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: not an address (write HOST:PORT, [IPV6]:PORT or unix:PATH)", text));
}

Result<SocketAddress> UnixAddress(const std::string& text) {
  const std::string_view path = std::string_view(text).substr(kUnixPrefix.size());
  SocketAddress address;
  auto& unix_address = reinterpret_cast<sockaddr_un&>(address.storage);
  if (path.empty()) return Malformed(text);
  if (path.size() >= sizeof unix_address.sun_path) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the path of a socket has at most {} bytes", text,
                            sizeof unix_address.sun_path - 1));
  }
  unix_address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), unix_address.sun_path);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

bool IsPort(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port <= 65'535;
}

}  // namespace

Result<SocketAddress> ParseSocketAddress(const std::string& text) {
  if (text.starts_with(kUnixPrefix)) return UnixAddress(text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return Malformed(text);
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!IsPort(port) || (host.find(':') != std::string::npos) != bracketed) return Malformed(text);

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return Fail(ErrorCode::kNotFound, fmt::format("{}: {}", text, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  return address;
}

std::string FormatSocketAddress(const SocketAddress& address) {
  if (address.IsUnix()) {
    return fmt::format("{}{}", kUnixPrefix,
                       reinterpret_cast<const sockaddr_un&>(address.storage).sun_path);
  }
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  getnameinfo(address.get(), address.size, host.data(), host.size(), port.data(), port.size(),
              NI_NUMERICHOST | NI_NUMERICSERV);
  if (address.storage.ss_family == AF_INET6)
    return fmt::format("[{}]:{}", host.data(), port.data());
  return fmt::format("{}:{}", host.data(), port.data());
}

bool IsLocalAddress(const std::string& text) {
  const Result<SocketAddress> address = ParseSocketAddress(text);
  if (!address) return false;
  if (address->storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address->storage);
    return ntohl(v4.sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
  }
  if (address->storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address->storage);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
  }
  return address->IsUnix();
}

Result<void> CheckMetricsAddress(const std::string& text, bool insecure_http) {
  if (insecure_http || IsLocalAddress(text)) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("\"{}\" would serve the metrics as plain text to anyone who reaches it (use a "
                  "loopback address or unix:PATH, or set insecure_http: true)",
                  text));
}

}  // namespace espalier::io
