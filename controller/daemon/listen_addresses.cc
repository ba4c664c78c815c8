#include "controller/daemon/listen_addresses.h"

#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "common/net/socket_address.h"

namespace espalier::controller {
namespace {

Result<void> Invalid(std::string_view field, const std::string& address, std::string_view why) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: \"{}\" {}", field, address, why));
}

// Whether a socket can be bound to the host of this address, at any port.
Result<void> CheckHost(std::string_view field, const std::string& text, io::SocketAddress address) {
  auto& any = address.storage;
  if (any.ss_family == AF_INET) reinterpret_cast<sockaddr_in&>(any).sin_port = 0;
  if (any.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(any).sin6_port = 0;
  const UniqueFd socket(::socket(any.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket || ::bind(socket.get(), address.get(), address.size) == 0) return {};
  if (errno != EADDRNOTAVAIL) return Invalid(field, text, std::strerror(errno));
  return Invalid(field, text,
                 "is no address of this machine (name one that `ip address` shows, or 0.0.0.0)");
}

Result<void> CheckHttp(const std::string& text) {
  const Result<io::SocketAddress> address = io::ParseSocketAddress(text);
  if (!address) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("http: {}", address.error().message));
  }
  return address->IsUnix() ? Result<void>{} : CheckHost("http", text, *address);
}

Result<void> CheckListen(const std::string& text) {
  constexpr std::string_view kTcp = "tcp://";
  constexpr std::string_view kIpc = "ipc://";
  if (text.starts_with(kIpc) && text.size() > kIpc.size()) return {};
  if (!text.starts_with(kTcp)) {
    const bool has_scheme = text.find("://") != std::string::npos;
    return Invalid("listen", text,
                   has_scheme ? "has another scheme than tcp:// or ipc://"
                              : fmt::format("has no scheme (write \"tcp://{}\")", text));
  }
  const std::string rest = text.substr(kTcp.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string::npos || colon + 1 == rest.size()) {
    return Invalid("listen", text, "has no port (write tcp://HOST:PORT)");
  }
  const std::string host = rest.substr(0, colon);
  const std::string port = rest.substr(colon + 1);
  const bool is_any = host == "*" || ::if_nametoindex(host.c_str()) != 0;
  const auto address = io::ParseSocketAddress(
      fmt::format("{}:{}", is_any ? "0.0.0.0" : host, port == "*" ? "0" : port));
  if (!address) return Invalid("listen", text, address.error().message);
  return is_any ? Result<void>{} : CheckHost("listen", text, *address);
}

}  // namespace

Result<void> CheckListenAddresses(const Configuration& config, const std::string& file) {
  Result<void> checked = CheckListen(config.listen);
  for (const std::string& address : config.http) {
    if (checked) checked = CheckHttp(address);
  }
  if (checked) return {};
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", file, checked.error().message));
}

}  // namespace espalier::controller
