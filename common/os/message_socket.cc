#include "common/os/message_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace espalier {
namespace {

constexpr std::size_t kMaxFiles = 8;
constexpr timeval kLongestConnect = {.tv_sec = 5, .tv_usec = 0};

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\": the path of a socket must have 1 to {} characters", path,
                            sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Error SystemError(const std::string& path, std::string_view what) {
  const int error = errno;
  const ErrorCode code = error == EACCES || error == EPERM ? ErrorCode::kPermissionDenied
                         : error == ENOENT                 ? ErrorCode::kNotFound
                                                           : ErrorCode::kUnavailable;
  return {code, fmt::format("{}: {}: {}", path, what, std::strerror(error))};
}

UniqueFd Open(int flags) {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
}

bool Connect(const UniqueFd& socket, const sockaddr_un& address) {
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// True if a process listens at the address, even if its queue is full.
bool Answers(const sockaddr_un& address) {
  return Connect(Open(SOCK_NONBLOCK), address) || errno == EAGAIN;
}

}  // namespace

Result<UniqueFd> ListenOnPath(const std::string& path) {
  const auto address = AddressOf(path);
  if (!address) return tl::unexpected<Error>(address.error());
  if (Answers(*address)) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("{}: another process answers there (stop it first)", path));
  }
  UniqueFd listener = Open(SOCK_NONBLOCK);
  if (!listener) return tl::unexpected<Error>(SystemError(path, "socket"));
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(path.c_str());
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return tl::unexpected<Error>(SystemError(path, "bind"));
  }
  if (::chmod(path.c_str(), 0666) != 0 || ::listen(listener.get(), SOMAXCONN) != 0) {
    Error error = SystemError(path, "listen");
    ::unlink(path.c_str());
    return tl::unexpected<Error>(std::move(error));
  }
  return listener;
}

bool IsListenedTo(const std::string& path) {
  const auto address = AddressOf(path);
  return address && Answers(*address);
}

Result<UniqueFd> ConnectToPath(const std::string& path) {
  const auto address = AddressOf(path);
  if (!address) return tl::unexpected<Error>(address.error());
  UniqueFd socket = Open(0);
  const auto limit_sends = [&](const timeval& limit) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  };
  limit_sends(kLongestConnect);  // the limit of connect, too
  if (socket && Connect(socket, *address)) {
    limit_sends({});
    return socket;
  }
  return Fail(ErrorCode::kUnavailable,
              fmt::format("{}: {} (is the agent running?)", path, std::strerror(errno)));
}

std::optional<UniqueFd> AcceptCaller(int listener, UniqueFd& spare) {
  const auto accept = [listener] {
    return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  };
  if (!spare) spare = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  UniqueFd caller = accept();
  if (caller) return caller;
  if ((errno == EMFILE || errno == ENFILE) && spare) {
    spare.Close();
    accept().Close();
    spare = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  return std::nullopt;
}

bool SendMessage(int socket, const void* data, std::size_t bytes, int file) {
  iovec part = {const_cast<void*>(data), bytes};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &file, sizeof(file));
  }
  while (true) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent >= 0 || errno != EINTR) return sent == static_cast<ssize_t>(bytes);
  }
}

std::optional<ReceivedMessage> ReceiveMessage(int socket, void* data, std::size_t bytes,
                                              bool wait) {
  iovec part = {data, bytes};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFiles * sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t received = -1;
  do {
    received =
        ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_TRUNC | (wait ? 0 : MSG_DONTWAIT));
  } while (received < 0 && errno == EINTR);
  if (received < 0 && !wait && errno == EAGAIN) return std::nullopt;
  ReceivedMessage result;
  result.bytes = received < 0 ? 0 : static_cast<std::size_t>(received);
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr && received >= 0;
       one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(one) + i * sizeof(int), sizeof(file));
      UniqueFd owned(file);
      if (!result.file) result.file = std::move(owned);
    }
  }
  return result;
}

}  // namespace espalier
