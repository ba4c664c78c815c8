#include "collective/transport/tcp_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/check.h"

namespace espalier::transport {
namespace {

enum : std::uint32_t {
  kMessageFrame = 0x45534d31,
  kAbortFrame = 0x45534131,
  kNoticeFrame = 0x45534e31
};
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kLongestReason = 500;

}  // namespace

TcpConnection::TcpConnection(UniqueFd socket, int peer, int slots, std::size_t slot_bytes)
    : socket_(std::move(socket)),
      peer_(peer),
      slot_bytes_(slot_bytes),
      out_(static_cast<std::size_t>(slots)),
      in_(static_cast<std::size_t>(slots)) {}

void TcpConnection::MakeMemory(Slot& slot) const {
  if (slot.data != nullptr) return;
  slot.memory.reset(new std::byte[slot_bytes_ + kAlignment]);
  const auto address = reinterpret_cast<std::uintptr_t>(slot.memory.get());
  slot.data = slot.memory.get() + (kAlignment - address % kAlignment) % kAlignment;
}

std::byte* TcpConnection::TryAcquire() {
  if (committed_ - sent_ == out_.size() || broken_) {
    needs_slot_ = true;
    return nullptr;
  }
  Slot& slot = At(out_, committed_);
  MakeMemory(slot);
  return slot.data;
}

void TcpConnection::Commit(std::size_t bytes, const MessageTag& tag) {
  ESPALIER_CHECK(bytes <= slot_bytes_);
  At(out_, committed_).header = {.kind = kMessageFrame, .bytes = bytes, .tag = tag};
  ++committed_;
  Send();
}

bool TcpConnection::Send() {
  bool moved = false;
  while (WantsToSend()) {
    Slot& slot = At(out_, sent_);
    const std::size_t whole = sizeof(Header) + slot.header.bytes;
    iovec parts[2];
    int count = 0;
    if (sent_bytes_ < sizeof(Header)) {
      parts[count++] = {reinterpret_cast<std::byte*>(&slot.header) + sent_bytes_,
                        sizeof(Header) - sent_bytes_};
    }
    const std::size_t data_sent = sent_bytes_ - std::min(sent_bytes_, sizeof(Header));
    if (data_sent < slot.header.bytes) {
      parts[count++] = {slot.data + data_sent, slot.header.bytes - data_sent};
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
    sent_bytes_ = 0;
    ++sent_;
    needs_slot_ = false;
  }
  return moved;
}

bool TcpConnection::WantsToReceive() const {
  return received_ - released_ < in_.size() && !broken_ && !abort_;
}

bool TcpConnection::AcceptHeader(Slot& slot) {
  const bool is_known = slot.header.kind == kMessageFrame || slot.header.kind == kAbortFrame ||
                        (slot.header.kind == kNoticeFrame && slot.header.bytes == 0);
  if (is_known && slot.header.bytes <= slot_bytes_) return true;
  Break("it sends something else than messages");
  return false;
}

bool TcpConnection::Receive() {
  bool moved = false;
  while (WantsToReceive()) {
    Slot& slot = At(in_, received_);
    MakeMemory(slot);
    const bool in_header = received_bytes_ < sizeof(Header);
    std::byte* to = in_header ? reinterpret_cast<std::byte*>(&slot.header) + received_bytes_
                              : slot.data + (received_bytes_ - sizeof(Header));
    const std::size_t whole = sizeof(Header) + (in_header ? 0 : slot.header.bytes);
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
    if (in_header && received_bytes_ == sizeof(Header) && !AcceptHeader(slot)) return moved;
    if (received_bytes_ < sizeof(Header)) continue;
    if (received_bytes_ < sizeof(Header) + slot.header.bytes) continue;
    received_bytes_ = 0;
    if (slot.header.kind == kNoticeFrame) {
      notice_ = slot.header.tag;
      continue;
    }
    if (slot.header.kind == kAbortFrame) {
      abort_.emplace(reinterpret_cast<const char*>(slot.data), slot.header.bytes);
      return moved;
    }
    ++received_;
    needs_message_ = false;
  }
  return moved;
}

const Message* TcpConnection::TryPeek() {
  if (received_ == released_) {
    needs_message_ = true;
    return nullptr;
  }
  const Slot& slot = At(in_, released_);
  message_ = {.bytes = {slot.data, slot.header.bytes}, .tag = slot.header.tag};
  return &message_;
}

void TcpConnection::Release() {
  ESPALIER_CHECK(received_ != released_);
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
    frame += reason.substr(0, std::min(kLongestReason, slot_bytes_));
    const Header header = {.kind = kAbortFrame, .bytes = frame.size() - sizeof(Header)};
    std::memcpy(frame.data(), &header, sizeof(header));
    ::send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ::shutdown(socket_.get(), SHUT_WR);
  Break("this rank has given up");
}

}  // namespace espalier::transport
