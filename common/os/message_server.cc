#include "common/os/message_server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace espalier {
namespace {

constexpr std::uint32_t kListenerTag = 0;  // callers are numbered from 1

}  // namespace

MessageServer::MessageServer(Limits limits, Handlers handlers)
    : limits_(limits),
      handlers_(std::move(handlers)),
      silent_(limits.most, limits.max_per_user),
      admitted_(limits.most, limits.max_per_user) {}

MessageServer::~MessageServer() {
  if (listener_) unlink(path_.c_str());
}

Result<void> MessageServer::Listen(const std::string& path) {
  Result<UniqueFd> listener = ListenOnPath(path);
  if (!listener) return Propagate(listener);
  path_ = path;
  listener_ = std::move(*listener);
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_ || !Watch(listener_.get(), kListenerTag)) {
    return Fail(ErrorCode::kInternal, fmt::format("{}: epoll: {}", path, std::strerror(errno)));
  }
  return {};
}

bool MessageServer::Watch(int fd, std::uint32_t tag) const {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u32 = tag;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void MessageServer::HandleReady() {
  std::array<epoll_event, kEventsPerTurn> events;
  const int count = epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, 0);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t tag = events[static_cast<std::size_t>(i)].data.u32;
    if (tag == kListenerTag) {
      AcceptAll();
      continue;
    }
    const auto caller = callers_.find(tag);
    if (caller != callers_.end() && !handlers_.on_readable(caller->second)) Remove(tag);
  }
}

void MessageServer::AcceptAll() {
  for (int i = 0; i < kEventsPerTurn; ++i) {
    std::optional<UniqueFd> socket = AcceptCaller(listener_.get(), spare_);
    if (!socket) return;
    if (!Accept(std::move(*socket))) handlers_.on_refused();
  }
}

bool MessageServer::Accept(UniqueFd socket) {
  const std::optional<LocalPeer> peer = LocalPeerOf(socket.get());
  if (!peer || !MakeRoomForSilent(peer->user)) return false;
  const std::uint32_t number = NextNumber();
  if (!Watch(socket.get(), number)) return false;
  silent_.Take(peer->user);
  callers_.emplace(number, Caller{number, *peer, std::move(socket)});
  return true;
}

// The next number that is neither the listener's nor in use.
std::uint32_t MessageServer::NextNumber() {
  do {
    ++last_number_;
  } while (last_number_ == kListenerTag || callers_.contains(last_number_));
  return last_number_;
}

bool MessageServer::MakeRoomForSilent(uid_t user) {
  const bool is_users_limit = !silent_.HasRoomFor(user);
  if (!is_users_limit && silent_.used() < limits_.most) return true;
  const auto oldest = std::ranges::find_if(callers_, [&](const auto& entry) {
    const Caller& caller = entry.second;
    return !caller.is_admitted && (!is_users_limit || caller.peer.user == user);
  });
  if (oldest == callers_.end()) return false;
  handlers_.on_refused();
  Remove(oldest->first);
  return true;
}

bool MessageServer::Admit(Caller& caller) {
  if (!admitted_.Take(caller.peer.user)) return false;
  silent_.Give(caller.peer.user);
  caller.is_admitted = true;
  return true;
}

void MessageServer::Remove(std::uint32_t number) {
  const auto gone = callers_.find(number);
  if (gone == callers_.end()) return;
  const Caller& caller = gone->second;
  (caller.is_admitted ? admitted_ : silent_).Give(caller.peer.user);
  handlers_.on_gone(caller);
  callers_.erase(gone);
}

}  // namespace espalier
