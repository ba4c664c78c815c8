#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

namespace espalier::attack {

// A connection to one of the agent's sockets (SOCK_SEQPACKET) that sends arbitrary messages. The
// frames are written by hand, without code of the real clients.
class LocalSocket {
 public:
  explicit LocalSocket(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un to = {};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.data(), path.size());
    is_connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  LocalSocket(const LocalSocket&) = delete;
  LocalSocket& operator=(const LocalSocket&) = delete;
  ~LocalSocket() { ::close(socket_); }

  bool is_connected() const { return is_connected_; }
  void Close() { ::close(std::exchange(socket_, -1)); }
  bool Send(const void* bytes, std::size_t count) const {
    return ::send(socket_, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(count);
  }
  // Receives a message and returns its size; 0 if the other side has hung up, -1 if there is none.
  ssize_t Receive(void* bytes, std::size_t count, bool wait = false) const {
    return ::recv(socket_, bytes, count, wait ? 0 : MSG_DONTWAIT);
  }

 private:
  int socket_;
  bool is_connected_ = false;
};

// A program's request on the socket of rank plans.
struct PlanAsk {
  std::uint32_t magic = 0x4e4c5045;
  std::uint32_t version = 3;
  std::uint32_t rank = 0;
  std::uint32_t user_and_one = 0;
  char job[256] = {};
  std::int32_t process = 0;  // may be left out
};
struct PlanTold {
  std::uint32_t magic = 0;
  std::uint32_t version = 0;
  std::uint64_t bytes = 0;
};
struct PlanWord {
  std::uint32_t magic = 0x4e4c5045;
  std::uint32_t collective = 0;
  std::uint64_t sequence = 1;
  std::uint64_t bytes = 0;
  std::uint64_t duration_us = 0;
  char error[256] = {};
};
inline constexpr std::uint64_t kRefusedPlan = UINT64_MAX;
inline constexpr std::uint64_t kNotOffloadedPlan = UINT64_MAX - 1;

inline PlanAsk AskFor(const std::string& job, std::uint32_t rank) {
  PlanAsk ask;
  ask.rank = rank;
  std::memcpy(ask.job, job.data(), job.size());
  return ask;
}

// True for root of a system that allows namespaces of processes, users and mounts here.
inline bool CanMakeNamespaces() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(::unshare(CLONE_NEWPID) == 0 && ::unshare(CLONE_NEWNS) == 0 &&
                    ::unshare(CLONE_NEWUSER) == 0
                ? 0
                : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return ::geteuid() == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Runs `body` in a process of that user while calling `serve` repeatedly here, and returns the
// result of `body`. Requires root.
inline int AsUser(uid_t user, const std::function<int()>& body,
                  const std::function<void()>& serve) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setuid(user) == 0 ? body() : 255);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) serve();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

}  // namespace espalier::attack
