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
  const std::optional<LocalPeer> peer = peers_.Of(socket.get());
  if (!peer || !MakeRoomForSilent(peer->payer)) return false;
  const std::uint32_t number = NextNumber();
  if (!Watch(socket.get(), number)) return false;
  silent_.Take(peer->payer);
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

bool MessageServer::MakeRoomForSilent(BudgetOwner user) {
  if (silent_.HasRoomFor(user) && silent_.used() < limits_.most) return true;
  std::optional<BudgetOwner> loser = silent_.GivesWayTo(user);
  if (!loser && silent_.UsedBy(user) > 0) loser = user;
  const auto oldest = std::ranges::find_if(callers_, [&](const auto& entry) {
    return !entry.second.is_admitted && (!loser || entry.second.peer.payer == *loser);
  });
  if (oldest == callers_.end()) return false;
  handlers_.on_refused();
  Remove(oldest->first);
  return true;
}

bool MessageServer::Admit(Caller& caller) {
  const BudgetOwner user = caller.peer.payer;
  if (const std::optional<BudgetOwner> loser = admitted_.GivesWayTo(user)) {
    const auto newest = std::find_if(callers_.rbegin(), callers_.rend(), [&](const auto& entry) {
      return entry.second.is_admitted && entry.second.peer.payer == *loser;
    });
    handlers_.on_refused();
    Remove(newest->first);
  }
  if (!admitted_.Take(user)) return false;
  silent_.Give(user);
  caller.is_admitted = true;
  return true;
}

void MessageServer::Remove(std::uint32_t number) {
  const auto gone = callers_.find(number);
  if (gone == callers_.end()) return;
  const Caller& caller = gone->second;
  (caller.is_admitted ? admitted_ : silent_).Give(caller.peer.payer);
  handlers_.on_gone(caller);
  callers_.erase(gone);
}

}  // namespace espalier
