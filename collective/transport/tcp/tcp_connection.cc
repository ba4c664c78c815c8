#include "collective/transport/tcp/tcp_connection.h"

#include <fmt/format.h>
#include <poll.h>
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
// What is taken at a time of a large message.
constexpr std::size_t kPieceBytes = 64 << 10;
// Less is not worth waiting for.
constexpr std::size_t kLeastWait = 16 << 10;

}  // namespace

TcpConnection::TcpConnection(UniqueFd socket, int peer, int slots, SlotPool& pool,
                             LendingTurn& turn)
    : socket_(std::move(socket)),
      guard_(socket_.get()),
      peer_(peer),
      pool_(pool),
      turn_(turn),
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
  if (!HasRoom() || IsLending()) {
    needs_slot_ = true;
    return false;
  }
  const bool is_anothers = turn_.is_kept && turn_.holder != nullptr && turn_.holder->IsLending();
  turn_.is_wanted |= is_anothers;
  return !is_anothers;
}

void TcpConnection::Lend(std::span<const std::byte> data, const MessageTag& tag) {
  ESPALIER_CHECK(data.size() <= pool_.slot_bytes() && HasRoom() && !IsLending());
  Outgoing& message = At(out_, committed_);
  message.header = {.kind = kMessageFrame, .bytes = data.size(), .tag = tag};
  message.data = data.data();
  lent_ = ++committed_;
  turn_.holder = this;
  Send();
}

bool TcpConnection::Send() {
  bool moved = false;
  while (WantsToSend() && !is_full_) {
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
      is_full_ = errno == EAGAIN;
      if (!is_full_) BreakAfterLastWords(std::strerror(errno));
      return moved;
    }
    moved = true;
    sent_bytes_ += static_cast<std::size_t>(sent);
    is_full_ = sent_bytes_ < whole;
    if (is_full_) continue;
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
  const bool is_large = header.bytes > kPieceBytes;
  const bool is_awaited = header.kind == kMessageFrame && received_ == released_ &&
                          header.bytes == awaited_.bytes && header.bytes > 0;
  message.data = is_awaited ? awaited_.place : nullptr;
  const bool is_taken = is_awaited && is_large && awaited_.is_taken;
  if (message.data == nullptr && !is_taken) message.data = message.slot = pool_.Take();
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

// As many of the bytes as are there.
std::size_t TcpConnection::Read(std::byte* to, std::size_t bytes) {
  if (ahead_.empty()) {
    if (is_dry_) return 0;
    // What follows few bytes comes along with them.
    const bool at_once = bytes >= kAheadBytes;
    const std::span<std::byte> into = at_once ? std::span(to, bytes) : std::span(ahead_memory_);
    ssize_t received = -1;
    do {
      received = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
    } while (received < 0 && errno == EINTR);
    is_dry_ = received < static_cast<ssize_t>(into.size());
    if (received <= 0) {
      if (received == 0) Break("it closed the connection");
      if (received < 0 && errno != EAGAIN) Break(std::strerror(errno));
      return 0;
    }
    if (at_once) return static_cast<std::size_t>(received);
    ahead_ = into.first(static_cast<std::size_t>(received));
  }
  const std::size_t taken = std::min(bytes, ahead_.size());
  std::memcpy(to, ahead_.data(), taken);
  ahead_ = ahead_.subspan(taken);
  return taken;
}

bool TcpConnection::ReceiveHeader(Incoming& message) {
  const std::size_t read = Read(reinterpret_cast<std::byte*>(&message.header) + received_bytes_,
                                sizeof(Header) - received_bytes_);
  received_bytes_ += read;
  return read > 0 && (received_bytes_ < sizeof(Header) || AcceptHeader(message));
}

// What can be had of the data, one piece at most where it is taken; false where that is nothing.
bool TcpConnection::ReceiveData(Incoming& message) {
  const std::size_t begin = received_bytes_ - sizeof(Header);
  const std::size_t left = message.header.bytes - begin;
  if (message.data != nullptr) {
    const std::size_t read = Read(message.data + begin, left);
    received_bytes_ += read;
    return read > 0;
  }
  if (taker_ == nullptr) return false;
  if (landing_ == nullptr) landing_ = pool_.Take();
  const std::size_t piece = std::min(kPieceBytes, landed_ + left);
  const std::size_t read = Read(landing_ + landed_, piece - landed_);
  received_bytes_ += read;
  landed_ += read;
  if (landed_ == piece) PassOn(message);
  return read > 0 && !take_error_;
}

void TcpConnection::PassOn(const Incoming& message) {
  const std::size_t begin = received_bytes_ - sizeof(Header) - landed_;
  auto taken = (*taker_)({.bytes = {landing_, landed_},
                          .offset = begin,
                          .whole = message.header.bytes,
                          .tag = message.header.tag});
  if (!taken) take_error_ = taken.error();
  pool_.Give(std::exchange(landing_, nullptr));
  landed_ = 0;
}

bool TcpConnection::Receive() {
  bool moved = false;
  while (WantsToReceive() && !(is_dry_ && ahead_.empty())) {
    Incoming& coming = At(in_, received_);
    if (received_bytes_ < sizeof(Header)) {
      if (!ReceiveHeader(coming)) return moved;
    } else if (!ReceiveData(coming)) {
      return moved;
    }
    moved = true;
    const bool is_whole = received_bytes_ >= sizeof(Header) &&
                          received_bytes_ == sizeof(Header) + coming.header.bytes;
    if (is_whole && AcceptMessage(coming)) return moved;
  }
  return moved;
}

short TcpConnection::PrepareToPoll() {
  const bool receives = WantsToReceive();
  if (receives) {
    std::size_t wanted = 0;
    if (received_bytes_ >= sizeof(Header)) {
      const Header& header = At(in_, received_).header;
      wanted = std::min(kPieceBytes - landed_, header.bytes + sizeof(Header) - received_bytes_);
    }
    const int least = wanted < kLeastWait ? 1 : static_cast<int>(wanted);
    if (least != least_) {
      ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least));
      least_ = least;
    }
  }
  return static_cast<short>((receives ? POLLIN : 0) | (WantsToSend() ? POLLOUT : 0));
}

void TcpConnection::MarkReady(short events) {
  const bool has_ended = (events & (POLLERR | POLLHUP | POLLNVAL)) != 0;
  if (has_ended || (events & POLLIN) != 0) is_dry_ = false;
  if (has_ended || (events & POLLOUT) != 0) is_full_ = false;
}

const Message* TcpConnection::Peek() {
  if (received_ == released_) Receive();
  if (received_ == released_) {
    needs_message_ = true;
    return nullptr;
  }
  awaited_ = {};
  const Incoming& first = At(in_, released_);
  message_ = {.bytes = {first.data, first.header.bytes}, .tag = first.header.tag};
  return &message_;
}

const Message* TcpConnection::TryPeek() { return Peek(); }

const Message* TcpConnection::TryReceive(std::byte* place, std::size_t bytes) {
  awaited_ = {.place = place, .bytes = bytes};
  return Peek();
}

Result<bool> TcpConnection::TryTake(std::size_t bytes, const Taker& taker) {
  awaited_ = {.bytes = bytes, .is_taken = true};
  taker_ = &taker;
  const Message* message = Peek();
  taker_ = nullptr;
  if (take_error_) return tl::unexpected(*take_error_);
  if (message == nullptr) return false;
  const Incoming& first = At(in_, released_);
  if (first.data == nullptr) return true;
  auto taken =
      taker({.bytes = message->bytes, .whole = message->bytes.size(), .tag = message->tag});
  if (!taken) return Propagate(taken);
  return true;
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

// A peer that has gone may have said why before.
void TcpConnection::BreakAfterLastWords(const std::string& why) {
  is_dry_ = false;
  while (Receive()) {
  }
  if (!broken_) Break(why);
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
