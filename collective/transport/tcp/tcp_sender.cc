#include "collective/transport/tcp/tcp_sender.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace espalier::transport {
namespace {

constexpr std::size_t kLongestReason = 500;

}  // namespace

std::byte* TcpSender::TryAcquire() {
  if (!HasRoom()) {
    needs_slot_ = true;
    return nullptr;
  }
  Outgoing& message = At(committed_);
  if (message.slot == nullptr) message.slot = pool_.Take();
  return message.slot;
}

void TcpSender::Commit(std::size_t bytes, const MessageTag& tag) {
  ESPALIER_CHECK(bytes <= pool_.slot_bytes());
  Outgoing& message = At(committed_);
  message.header = {.kind = kMessageFrame, .bytes = bytes, .tag = tag};
  message.data = message.slot;
  ++committed_;
  if (watch_ != nullptr) watch_->HandleQueued(bytes);
  Send();
}

bool TcpSender::CanSendInPlace() {
  if (IsSendingInPlace()) Send();
  if (!HasRoom() || IsSendingInPlace()) {
    needs_slot_ = true;
    return false;
  }
  const bool is_anothers =
      token_.is_kept && token_.holder != nullptr && token_.holder->IsSendingInPlace();
  token_.is_wanted |= is_anothers;
  return !is_anothers;
}

void TcpSender::SendInPlace(std::span<const std::byte> data, const MessageTag& tag) {
  ESPALIER_CHECK(data.size() <= pool_.slot_bytes() && HasRoom() && !IsSendingInPlace());
  Outgoing& message = At(committed_);
  message.header = {.kind = kMessageFrame, .bytes = data.size(), .tag = tag};
  message.data = data.data();
  in_place_end_ = ++committed_;
  token_.holder = this;
  if (watch_ != nullptr) watch_->HandleQueued(data.size());
  Send();
}

bool TcpSender::Send() {
  bool moved = false;
  while (WantsToSend() && !is_full_) {
    Outgoing& leaving = At(sent_);
    const std::size_t whole = sizeof(FrameHeader) + leaving.header.bytes;
    iovec parts[2];
    int count = 0;
    if (sent_bytes_ < sizeof(FrameHeader)) {
      parts[count++] = {reinterpret_cast<std::byte*>(&leaving.header) + sent_bytes_,
                        sizeof(FrameHeader) - sent_bytes_};
    }
    const std::size_t data_sent = sent_bytes_ - std::min(sent_bytes_, sizeof(FrameHeader));
    if (data_sent < leaving.header.bytes) {
      parts[count++] = {const_cast<std::byte*>(leaving.data) + data_sent,
                        leaving.header.bytes - data_sent};
    }
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<std::size_t>(count);
    const ssize_t sent = ::sendmsg(link_.socket(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      is_full_ = errno == EAGAIN;
      if (!is_full_) receiver_.BreakAfterLastWords(std::strerror(errno));
      return moved;
    }
    moved = true;
    sent_bytes_ += static_cast<std::size_t>(sent);
    is_full_ = sent_bytes_ < whole;
    if (is_full_) continue;
    if (leaving.slot != nullptr) pool_.Give(std::exchange(leaving.slot, nullptr));
    sent_bytes_ = 0;
    ++sent_;
    if (watch_ != nullptr) watch_->HandleSent(leaving.header.bytes);
    needs_slot_ = false;
  }
  return moved;
}

bool TcpSender::SendNotice(const MessageTag& call, int awaited) {
  if (link_.is_broken() || sent_bytes_ != 0) return link_.is_broken();
  const FrameHeader header = {
      .kind = kNoticeFrame, .awaited = static_cast<std::uint32_t>(awaited + 1), .tag = call};
  const ssize_t sent = ::send(link_.socket(), &header, sizeof(header), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0 && sent != sizeof(header)) link_.Break("a notice was only partly sent");
  return sent > 0;
}

void TcpSender::SendAbort(const std::string& reason) {
  // Another frame can be sent only if none is partly sent.
  if (!link_.is_broken() && sent_bytes_ == 0) {
    std::string frame(sizeof(FrameHeader), '\0');
    frame += reason.substr(0, std::min(kLongestReason, pool_.slot_bytes()));
    const FrameHeader header = {.kind = kAbortFrame, .bytes = frame.size() - sizeof(FrameHeader)};
    std::memcpy(frame.data(), &header, sizeof(header));
    ::send(link_.socket(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ::shutdown(link_.socket(), SHUT_WR);
  link_.Break("this rank has aborted");
}

}  // namespace espalier::transport
