#include "common/bus/zmq_connections.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

namespace espalier::io {
namespace {

using namespace std::chrono_literals;

// Small enough that flows do not wait for a sweep: each connection takes two system calls.
constexpr std::size_t kSliceOfSweep = 128;
// How often each connection is checked; this bounds what a peer can send between two checks.
constexpr Duration kSweepEvery = 500ms;

// The socket's cookie; 0 if the descriptor is not a socket or is closed.
std::uint64_t CookieOf(int descriptor) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  const int rc = getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size);
  return rc == 0 ? cookie : 0;
}

// The number of bytes received on a TCP connection; none for other sockets.
std::optional<std::uint64_t> ReceivedBytes(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return info.tcpi_bytes_received;
}

bool HasPeer(int descriptor, std::string_view address) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  if (peer.ss_family == AF_UNIX) return true;  // a unix socket has no address to compare
  std::array<char, NI_MAXHOST> host{};
  const int rc = getnameinfo(reinterpret_cast<const sockaddr*>(&peer), size, host.data(),
                             host.size(), nullptr, 0, NI_NUMERICHOST);
  return rc == 0 && address == host.data();
}

// Shuts down the socket with this cookie. Returns false if there is no free descriptor to do so.
bool ShutDown(int descriptor, std::uint64_t cookie) {
  const int duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) return errno != EMFILE && errno != ENFILE;
  if (CookieOf(duplicate) == cookie) shutdown(duplicate, SHUT_RDWR);
  close(duplicate);
  return true;
}

}  // namespace

void ZmqConnections::HandleAccepted(int descriptor, TimePoint now) {
  const std::uint64_t cookie = CookieOf(descriptor);
  if (cookie == 0) return;  // closed already
  const auto at = static_cast<std::size_t>(descriptor);
  if (at >= connections_.size()) connections_.resize(at + 1);
  count_ += connections_[at].cookie == 0 ? 1 : 0;
  connections_[at] = {.cookie = cookie, .accepted = now};
  unheard_.push_back({descriptor, cookie});
  EndUnheard(now);
}

void ZmqConnections::HandleClosed(int descriptor) {
  if (CookieAt(descriptor) == 0) return;
  connections_[static_cast<std::size_t>(descriptor)] = {};
  --count_;
}

std::uint64_t ZmqConnections::CookieAt(int descriptor) const {
  const auto at = static_cast<std::size_t>(descriptor);
  return descriptor >= 0 && at < connections_.size() ? connections_[at].cookie : 0;
}

ZmqConnections::Connection* ZmqConnections::At(const Id& id) {
  return IsOpen(id) ? &connections_[static_cast<std::size_t>(id.descriptor)] : nullptr;
}

ZmqConnections::Id ZmqConnections::Find(int descriptor, std::string_view address) const {
  const std::uint64_t cookie = CookieAt(descriptor);
  if (cookie == 0 || !HasPeer(descriptor, address)) return {};
  return {descriptor, cookie};
}

bool ZmqConnections::IsOpen(const Id& id) const {
  return id.cookie != 0 && CookieAt(id.descriptor) == id.cookie;
}

void ZmqConnections::Hear(const Id& id) {
  Connection* const connection = At(id);
  if (connection == nullptr) return;
  connection->was_heard = true;
  connection->was_heard_since = true;
}

void ZmqConnections::End(const Id& id) {
  Connection* const connection = At(id);
  if (connection == nullptr) return;
  connection->is_ending = true;
  ShutDown(id.descriptor, id.cookie);  // if that fails, Sweep tries again
}

void ZmqConnections::EndSoon(const Id& id) {
  Connection* const connection = At(id);
  if (connection != nullptr) connection->is_ending = true;
}

void ZmqConnections::EndUnheard(TimePoint now) {
  std::size_t excess = count_ - std::min(count_, limits_.connections);
  while (!unheard_.empty()) {
    const Id oldest = unheard_.front();
    const Connection* const connection = At(oldest);
    const bool waits = connection != nullptr && !connection->was_heard && !connection->is_ending;
    if (waits && excess == 0 && now - connection->accepted < limits_.first_message) return;
    if (waits) End(oldest);
    excess -= waits && excess > 0 ? 1 : 0;
    unheard_.pop_front();
  }
}

bool ZmqConnections::NeverEndsItsMessage(int descriptor, Connection& connection) const {
  const std::optional<std::uint64_t> bytes = ReceivedBytes(descriptor);
  if (!bytes) return false;
  if (connection.was_heard_since) connection.bytes_when_heard = *bytes;
  connection.was_heard_since = false;
  return *bytes > connection.bytes_when_heard + limits_.max_partial_message_bytes;
}

std::vector<ZmqConnections::Id> ZmqConnections::Sweep(TimePoint now) {
  EndUnheard(now);
  std::vector<Id> endless;
  std::size_t next = next_in_sweep_;
  for (std::size_t i = 0; i < kSliceOfSweep && next < connections_.size(); ++next) {
    Connection& connection = connections_[next];
    if (connection.cookie == 0) continue;
    ++i;
    const auto descriptor = static_cast<int>(next);
    const Id id{descriptor, connection.cookie};
    if (connection.is_ending) {
      ShutDown(descriptor, connection.cookie);
    } else if (NeverEndsItsMessage(descriptor, connection)) {
      End(id);
      endless.push_back(id);
    }
  }
  next_in_sweep_ = next < connections_.size() ? next : 0;
  return endless;
}

Duration ZmqConnections::SweepInterval() const {
  return kSweepEvery / static_cast<std::int64_t>(count_ / kSliceOfSweep + 1);
}

}  // namespace espalier::io
