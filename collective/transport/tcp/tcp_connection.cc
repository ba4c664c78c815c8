#include "collective/transport/tcp/tcp_connection.h"

#include <fmt/format.h>
#include <poll.h>

#include <utility>

namespace espalier::transport {

TcpConnection::TcpConnection(UniqueFd socket, int peer, int slots, SlotPool& pool,
                             ZeroCopySendToken& token)
    : link_(std::move(socket)),
      peer_(peer),
      receiver_(link_, slots, pool),
      sender_(link_, receiver_, slots, pool, token) {}

short TcpConnection::PrepareToPoll() {
  const bool receives = receiver_.WantsToReceive();
  if (receives) receiver_.PrepareToPoll();
  return static_cast<short>((receives ? POLLIN : 0) | (sender_.WantsToSend() ? POLLOUT : 0));
}

void TcpConnection::MarkReady(short events) {
  const bool has_ended = (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  if (has_ended || (events & POLLIN) != 0) receiver_.MarkReady();
  if (has_ended || (events & POLLOUT) != 0) sender_.MarkReady();
}

std::optional<std::string> TcpConnection::Failure() const {
  const bool lost_messages = link_.is_broken() && sender_.HasUnsent();
  const bool fails = receiver_.abort() || sender_.NeedsSlot() || receiver_.NeedsMessage();
  return fails || lost_messages ? Ending() : std::nullopt;
}

std::optional<std::string> TcpConnection::Ending() const {
  if (receiver_.abort() || !link_.is_broken()) return receiver_.abort();
  return fmt::format("rank {} is gone: {}", peer_, link_.why_broken());
}

bool TcpConnection::HasHungUp() const {
  pollfd polled = {.fd = link_.socket(), .events = POLLRDHUP, .revents = 0};
  return link_.socket() >= 0 && ::poll(&polled, 1, 0) > 0;
}

}  // namespace espalier::transport
