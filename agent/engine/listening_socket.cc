#include "agent/engine/listening_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace espalier::engine {
namespace {

constexpr int kFirst = 3;  // SD_LISTEN_FDS_START

std::string TakeVariable(const char* name) {
  const char* const value = std::getenv(name);
  std::string taken = value == nullptr ? "" : value;
  ::unsetenv(name);
  return taken;
}

}  // namespace

Result<UniqueFd> TakeSocketOfSystemd() {
  const std::string process = TakeVariable("LISTEN_PID");
  const std::string count = TakeVariable("LISTEN_FDS");
  TakeVariable("LISTEN_FDNAMES");
  if (process != std::to_string(::getpid())) return UniqueFd();
  UniqueFd socket(kFirst);
  int type = 0;
  int listens = 0;
  socklen_t size = sizeof(type);
  const bool is_right =
      count == "1" && ::getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
      type == SOCK_SEQPACKET && listens != 0;
  if (!is_right) {
    return Fail(ErrorCode::kInvalidArgument,
                "systemd must pass exactly one listening socket for sequential packets (check "
                "ListenSequentialPacket= in espalier-engine.socket)");
  }
  if (::fcntl(socket.get(), F_SETFD, FD_CLOEXEC) != 0 ||
      ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK) != 0) {
    return Fail(ErrorCode::kInvalidArgument, "the socket from systemd cannot be used");
  }
  return socket;
}

}  // namespace espalier::engine
