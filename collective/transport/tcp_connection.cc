#include "collective/transport/tcp_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace espalier::transport {
namespace {

enum : std::uint32_t {
  kMessageFrame = 0x45534d31,
  kAbortFrame = 0x45534131,
  kNoticeFrame = 0x45534e31
};
constexpr std::size_t kLongestReason = 500;

}  // namespace

TcpConnection::TcpConnection(UniqueFd socket, int peer, int slots, SlotPool& pool)
    : socket_(std::move(socket)),
      peer_(peer),
      pool_(pool),
      out_(static_cast<std::size_t>(slots)),
      in_(static_cast<std::size_t>(slots)) {}

std::byte* TcpConnection::TryAcquire() {
  if (!HasRoom()) {
    needs_slot_ = true;
    return nullptr;
  }
  Outgoing& message = At(out_, committed_);
  if (message.slot == nullptr) message.slot = pool_.Take();
  return message.slot;
}

void TcpConnection::Commit(std::size_t bytes, const MessageTag& tag) {
  ESPALIER_CHECK(bytes <= pool_.slot_bytes());
  Outgoing& message = At(out_, committed_);
  message.header = {.kind = kMessageFrame, .bytes = bytes, .tag = tag};
  message.data = message.slot;
  ++committed_;
  Send();
}

bool TcpConnection::CanLend() {
  if (IsLending()) Send();
  if (HasRoom() && !IsLending()) return true;
  needs_slot_ = true;
  return false;
}

void TcpConnection::Lend(std::span<const std::byte> data, const MessageTag& tag) {
  ESPALIER_CHECK(data.size() <= pool_.slot_bytes() && HasRoom() && !IsLending());
  Outgoing& message = At(out_, committed_);
  message.header = {.kind = kMessageFrame, .bytes = data.size(), .tag = tag};
  message.data = data.data();
  lent_ = ++committed_;
  Send();
}

bool TcpConnection::Send() {
  bool moved = false;
  while (WantsToSend()) {
    Outgoing& leaving = At(out_, sent_);
    const std::size_t whole = sizeof(Header) + leaving.header.bytes;
    iovec parts[2];
    int count = 0;
    if (sent_bytes_ < sizeof(Header)) {
      parts[count++] = {reinterpret_cast<std::byte*>(&leaving.header) + sent_bytes_,
                        sizeof(Header) - sent_bytes_};
    }
    const std::size_t data_sent = sent_bytes_ - std::min(sent_bytes_, sizeof(Header));
    if (data_sent < leaving.header.bytes) {
      parts[count++] = {const_cast<std::byte*>(leaving.data) + data_sent,
                        leaving.header.bytes - data_sent};
    }
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<std::size_t>(count);
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) Break(std::strerror(errno));
      return moved;
    }
    moved = true;
    sent_bytes_ += static_cast<std::size_t>(sent);
    if (sent_bytes_ < whole) continue;
    if (leaving.slot != nullptr) pool_.Give(std::exchange(leaving.slot, nullptr));
    sent_bytes_ = 0;
    ++sent_;
    needs_slot_ = false;
  }
  return moved;
}

bool TcpConnection::WantsToReceive() const {
  return received_ - released_ < in_.size() && !broken_ && !abort_;
}

bool TcpConnection::AcceptHeader(Incoming& message) {
  const Header& header = message.header;
  const bool is_known = header.kind == kMessageFrame || header.kind == kAbortFrame ||
                        (header.kind == kNoticeFrame && header.bytes == 0);
  if (!is_known || header.bytes > pool_.slot_bytes()) {
    Break("it sends something else than messages");
    return false;
  }
  const bool is_awaited = received_ == released_ && place_.data() != nullptr;
  if (header.kind == kMessageFrame && is_awaited && header.bytes == place_.size()) {
    message.data = place_.data();
  } else {
    message.data = message.slot = pool_.Take();
  }
  return true;
}

// Whether it was one for the owner of the inbox.
bool TcpConnection::AcceptMessage(Incoming& message) {
  received_bytes_ = 0;
  const Header& header = message.header;
  if (header.kind == kMessageFrame) {
    ++received_;
    needs_message_ = false;
    return true;
  }
  if (header.kind == kNoticeFrame) notice_ = header.tag;
  if (header.kind == kAbortFrame) {
    abort_.emplace(reinterpret_cast<const char*>(message.data), header.bytes);
  }
  pool_.Give(std::exchange(message.slot, nullptr));
  return false;
}

bool TcpConnection::Receive() {
  bool moved = false;
  while (WantsToReceive()) {
    Incoming& coming = At(in_, received_);
    const bool in_header = received_bytes_ < sizeof(Header);
    std::byte* to = in_header ? reinterpret_cast<std::byte*>(&coming.header) + received_bytes_
                              : coming.data + (received_bytes_ - sizeof(Header));
    const std::size_t whole = sizeof(Header) + (in_header ? 0 : coming.header.bytes);
    const ssize_t received = ::recv(socket_.get(), to, whole - received_bytes_, MSG_DONTWAIT);
    if (received < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) Break(std::strerror(errno));
      return moved;
    }
    if (received == 0) {
      Break("it closed the connection");
      return moved;
    }
    moved = true;
    received_bytes_ += static_cast<std::size_t>(received);
    if (received_bytes_ < sizeof(Header)) continue;
    if (in_header && !AcceptHeader(coming)) return moved;
    const bool is_whole = received_bytes_ == sizeof(Header) + coming.header.bytes;
    if (is_whole && AcceptMessage(coming)) return moved;
  }
  return moved;
}

const Message* TcpConnection::TryPeek() {
  if (received_ == released_) Receive();
  if (received_ == released_) {
    needs_message_ = true;
    return nullptr;
  }
  place_ = {};
  const Incoming& first = At(in_, released_);
  message_ = {.bytes = {first.data, first.header.bytes}, .tag = first.header.tag};
  return &message_;
}

const Message* TcpConnection::TryReceive(std::byte* place, std::size_t bytes) {
  place_ = {place, bytes};
  return TryPeek();
}

void TcpConnection::Release() {
  ESPALIER_CHECK(received_ != released_);
  Incoming& first = At(in_, released_);
  if (first.slot != nullptr) pool_.Give(std::exchange(first.slot, nullptr));
  ++released_;
}

void TcpConnection::Break(std::string why) {
  broken_ = true;
  why_broken_ = std::move(why);
}

std::optional<std::string> TcpConnection::Failure() const {
  const bool lost_messages = broken_ && sent_ != committed_;
  return abort_ || needs_slot_ || needs_message_ || lost_messages ? Ending() : std::nullopt;
}

std::optional<std::string> TcpConnection::Ending() const {
  if (abort_ || !broken_) return abort_;
  return fmt::format("rank {} is gone: {}", peer_, why_broken_);
}

bool TcpConnection::SendNotice(const MessageTag& call) {
  if (broken_ || sent_bytes_ != 0) return broken_;
  const Header header = {.kind = kNoticeFrame, .tag = call};
  const ssize_t sent = ::send(socket_.get(), &header, sizeof(header), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0 && sent != sizeof(header)) Break("half a notice was sent");
  return sent > 0;
}

void TcpConnection::SendAbort(const std::string& reason) {
  // Only between two frames is there a place for one more.
  if (!broken_ && sent_bytes_ == 0) {
    std::string frame(sizeof(Header), '\0');
    frame += reason.substr(0, std::min(kLongestReason, pool_.slot_bytes()));
    const Header header = {.kind = kAbortFrame, .bytes = frame.size() - sizeof(Header)};
    std::memcpy(frame.data(), &header, sizeof(header));
    ::send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ::shutdown(socket_.get(), SHUT_WR);
  Break("this rank has given up");
}

}  // namespace espalier::transport
