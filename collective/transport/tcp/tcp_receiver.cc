#include "collective/transport/tcp/tcp_receiver.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace espalier::transport {
namespace {

// The size of the pieces in which a large message is passed on.
constexpr std::size_t kPieceBytes = 64 << 10;
// poll(2) does not wait for several bytes if fewer than this are missing.
constexpr std::size_t kLeastWait = 16 << 10;

}  // namespace

bool TcpReceiver::WantsToReceive() const {
  return received_ - released_ < queue_.size() && !link_.is_broken() && !abort_;
}

bool TcpReceiver::AcceptHeader(Incoming& message) {
  const FrameHeader& header = message.header;
  const bool is_known = header.kind == kMessageFrame || header.kind == kAbortFrame ||
                        (header.kind == kNoticeFrame && header.bytes == 0);
  if (!is_known || header.bytes > pool_.slot_bytes()) {
    link_.Break("it sends something other than messages");
    return false;
  }
  const bool is_large = header.bytes > kPieceBytes;
  const bool is_awaited = header.kind == kMessageFrame && received_ == released_ &&
                          header.bytes == awaited_.bytes && header.bytes > 0;
  message.data = is_awaited ? awaited_.place : nullptr;
  const bool in_pieces = is_awaited && is_large && awaited_.in_pieces;
  if (message.data == nullptr && !in_pieces) message.data = message.slot = pool_.Take();
  return true;
}

// Processes a complete frame. Returns whether it is a message for the owner of the inbox.
bool TcpReceiver::AcceptMessage(Incoming& message) {
  received_bytes_ = 0;
  const FrameHeader& header = message.header;
  if (header.kind != kAbortFrame) last_call_ = header.tag;
  if (header.kind == kMessageFrame) {
    ++received_;
    needs_message_ = false;
    return true;
  }
  if (header.kind == kNoticeFrame) {
    notice_ = header.tag;
    last_notice_ = header;
  }
  if (header.kind == kAbortFrame) {
    abort_.emplace(reinterpret_cast<const char*>(message.data), header.bytes);
  }
  pool_.Give(std::exchange(message.slot, nullptr));
  return false;
}

// Reads up to `bytes` bytes, from the read-ahead buffer or the socket; returns how many.
std::size_t TcpReceiver::Read(std::byte* to, std::size_t bytes) {
  if (read_ahead_.empty()) {
    if (is_drained_) return 0;
    // A short read goes through the buffer, so that what follows is received along with it.
    const bool at_once = bytes >= kReadAheadBytes;
    const std::span<std::byte> into =
        at_once ? std::span(to, bytes) : std::span(read_ahead_memory_);
    ssize_t received = -1;
    do {
      received = ::recv(link_.socket(), into.data(), into.size(), MSG_DONTWAIT);
    } while (received < 0 && errno == EINTR);
    is_drained_ = received < static_cast<ssize_t>(into.size());
    if (received <= 0) {
      if (received == 0) link_.Break("it closed the connection");
      if (received < 0 && errno != EAGAIN) link_.Break(std::strerror(errno));
      return 0;
    }
    if (at_once) return static_cast<std::size_t>(received);
    read_ahead_ = into.first(static_cast<std::size_t>(received));
  }
  const std::size_t taken = std::min(bytes, read_ahead_.size());
  std::memcpy(to, read_ahead_.data(), taken);
  read_ahead_ = read_ahead_.subspan(taken);
  return taken;
}

bool TcpReceiver::ReceiveHeader(Incoming& message) {
  const std::size_t read = Read(reinterpret_cast<std::byte*>(&message.header) + received_bytes_,
                                sizeof(FrameHeader) - received_bytes_);
  received_bytes_ += read;
  return read > 0 && (received_bytes_ < sizeof(FrameHeader) || AcceptHeader(message));
}

// Receives available data of a message, at most one piece if it is received in pieces. Returns
// false if there was none.
bool TcpReceiver::ReceiveData(Incoming& message) {
  const std::size_t begin = received_bytes_ - sizeof(FrameHeader);
  const std::size_t left = message.header.bytes - begin;
  if (message.data != nullptr) {
    const std::size_t read = Read(message.data + begin, left);
    received_bytes_ += read;
    return read > 0;
  }
  if (handler_ == nullptr) return false;
  if (piece_ == nullptr) piece_ = pool_.Take();
  const std::size_t piece = std::min(kPieceBytes, piece_bytes_ + left);
  const std::size_t read = Read(piece_ + piece_bytes_, piece - piece_bytes_);
  received_bytes_ += read;
  piece_bytes_ += read;
  if (piece_bytes_ == piece) PassOn(message);
  return read > 0 && !handler_error_;
}

void TcpReceiver::PassOn(const Incoming& message) {
  const std::size_t begin = received_bytes_ - sizeof(FrameHeader) - piece_bytes_;
  auto taken = (*handler_)({.bytes = {piece_, piece_bytes_},
                            .offset = begin,
                            .whole = message.header.bytes,
                            .tag = message.header.tag});
  if (!taken) handler_error_ = taken.error();
  pool_.Give(std::exchange(piece_, nullptr));
  piece_bytes_ = 0;
}

bool TcpReceiver::Receive() {
  bool moved = false;
  while (WantsToReceive() && !(is_drained_ && read_ahead_.empty())) {
    Incoming& coming = At(received_);
    if (received_bytes_ < sizeof(FrameHeader)) {
      if (!ReceiveHeader(coming)) return moved;
    } else if (!ReceiveData(coming)) {
      return moved;
    }
    moved = true;
    const bool is_whole = received_bytes_ >= sizeof(FrameHeader) &&
                          received_bytes_ == sizeof(FrameHeader) + coming.header.bytes;
    if (is_whole && AcceptMessage(coming)) return moved;
  }
  return moved;
}

void TcpReceiver::PrepareToPoll() {
  std::size_t wanted = 0;
  if (received_bytes_ >= sizeof(FrameHeader)) {
    const FrameHeader& header = At(received_).header;
    wanted =
        std::min(kPieceBytes - piece_bytes_, header.bytes + sizeof(FrameHeader) - received_bytes_);
  }
  const int least = wanted < kLeastWait ? 1 : static_cast<int>(wanted);
  if (least == least_) return;
  ::setsockopt(link_.socket(), SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least));
  least_ = least;
}

const Message* TcpReceiver::Peek() {
  if (received_ == released_) Receive();
  if (received_ == released_) {
    needs_message_ = true;
    return nullptr;
  }
  awaited_ = {};
  const Incoming& first = At(released_);
  message_ = {.bytes = {first.data, first.header.bytes}, .tag = first.header.tag};
  return &message_;
}

const Message* TcpReceiver::TryReceive(std::byte* place, std::size_t bytes) {
  awaited_ = {.place = place, .bytes = bytes};
  return Peek();
}

Result<bool> TcpReceiver::TryConsume(std::size_t bytes, const PieceHandler& handler) {
  awaited_ = {.bytes = bytes, .in_pieces = true};
  handler_ = &handler;
  const Message* message = Peek();
  handler_ = nullptr;
  if (handler_error_) return tl::unexpected(*handler_error_);
  if (message == nullptr) return false;
  const Incoming& first = At(released_);
  if (first.data == nullptr) return true;
  auto taken =
      handler({.bytes = message->bytes, .whole = message->bytes.size(), .tag = message->tag});
  if (!taken) return Propagate(taken);
  return true;
}

void TcpReceiver::Release() {
  ESPALIER_CHECK(received_ != released_);
  Incoming& first = At(released_);
  if (first.slot != nullptr) pool_.Give(std::exchange(first.slot, nullptr));
  ++released_;
}

void TcpReceiver::BreakAfterLastWords(const std::string& why) {
  is_drained_ = false;
  while (Receive()) {
  }
  if (!link_.is_broken()) link_.Break(why);
}

}  // namespace espalier::transport
