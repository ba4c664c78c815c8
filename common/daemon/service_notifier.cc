#include "common/daemon/service_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace espalier::io {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Connects to the socket of that name; a leading '@' denotes an abstract one.
UniqueFd ConnectTo(std::string name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof(address.sun_path)) return UniqueFd();
  std::memcpy(address.sun_path, name.data(), name.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return UniqueFd();
  }
  return socket;
}

// The watchdog's interval; zero if there is none, or if it is meant for another process.
Duration WatchdogInterval() {
  const std::string process = Variable("WATCHDOG_PID");
  if (!process.empty() && process != std::to_string(::getpid())) return Duration::zero();
  const std::string text = Variable("WATCHDOG_USEC");
  std::int64_t microseconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), microseconds);
  const bool is_number = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return is_number && microseconds > 0 ? std::chrono::microseconds(microseconds) : Duration::zero();
}

}  // namespace

ServiceNotifier::ServiceNotifier(EventLoop& loop)
    : loop_(loop), socket_(ConnectTo(Variable("NOTIFY_SOCKET"))), beat_(WatchdogInterval() / 2) {
  Tell("READY=1");
  if (socket_ && beat_ > Duration::zero()) Beat();
}

ServiceNotifier::~ServiceNotifier() {
  if (!starts_again_) Tell("STOPPING=1");
}

void ServiceNotifier::Tell(const char* state) const {
  if (socket_) (void)::send(socket_.get(), state, std::strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ServiceNotifier::Beat() {
  Tell("WATCHDOG=1");
  timer_ = loop_.After(beat_, [this] { Beat(); });
}

}  // namespace espalier::io
