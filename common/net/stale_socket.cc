#include "common/net/stale_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/unique_fd.h"

namespace espalier::io {

tl::unexpected<Error> SocketError(const SocketAddress& address, int error) {
  const ErrorCode code =
      error == EACCES || error == EPERM ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable;
  return Fail(code, fmt::format("{}: {}", FormatSocketAddress(address), std::strerror(error)));
}

const char* UnixPath(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_un&>(address.storage).sun_path;
}

Result<void> RemoveStaleSocket(const SocketAddress& address) {
  struct stat status {};
  if (lstat(UnixPath(address), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: the path exists and is not a socket (name another one)",
                            FormatSocketAddress(address)));
  }
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe) return SocketError(address, errno);
  if (connect(probe.get(), address.get(), address.size) == 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: another process listens there (stop it first)",
                            FormatSocketAddress(address)));
  }
  if (errno != ECONNREFUSED) return SocketError(address, errno);
  unlink(UnixPath(address));
  return {};
}

}  // namespace espalier::io
