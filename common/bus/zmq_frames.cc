#include "common/bus/zmq_frames.h"

#include <zmq.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <vector>

namespace espalier::io {
namespace {

// An upper bound for what encryption and its nonce add to a frame.
constexpr std::size_t kFrameOverhead = 64;
constexpr int kHandshakeTimeoutMs = 15'000;

}  // namespace

void SetLimits(ZmqSocket& socket, int send_high_water_mark) {
  socket.Set(ZMQ_IPV6, 1);
  socket.Set(ZMQ_SNDHWM, send_high_water_mark);
  socket.Set(ZMQ_RCVHWM, kReceiveHighWaterMark);
  socket.Set(ZMQ_MAXMSGSIZE, static_cast<std::int64_t>(kMaxFrameBytes + kFrameOverhead));
  socket.Set(ZMQ_HANDSHAKE_IVL, kHandshakeTimeoutMs);
}

void BreakSilentConnections(ZmqSocket& socket, Duration silence_limit) {
  constexpr int kSignsOfLife = 5;
  const auto seconds = static_cast<int>(
      std::max(std::chrono::ceil<std::chrono::seconds>(silence_limit).count(), std::int64_t{1}));
  const int interval = std::max(seconds / kSignsOfLife, 1);
  socket.Set(ZMQ_TCP_KEEPALIVE, 1);
  socket.Set(ZMQ_TCP_KEEPALIVE_IDLE, interval);
  socket.Set(ZMQ_TCP_KEEPALIVE_INTVL, interval);
  socket.Set(ZMQ_TCP_MAXRT, 1'000 * seconds);  // TCP_USER_TIMEOUT, for both
}

int SendInFrames(ZmqSocket& socket, std::string_view routing_id, std::string_view bytes) {
  if (bytes.size() <= kMaxFrameBytes) {  // nearly all messages
    const std::array frames{routing_id, bytes};
    return socket.Send(std::span(frames).subspan(routing_id.empty() ? 1 : 0));
  }
  std::vector<std::string_view> frames;
  frames.reserve(bytes.size() / kMaxFrameBytes + 2);
  if (!routing_id.empty()) frames.push_back(routing_id);
  do {
    frames.push_back(bytes.substr(0, kMaxFrameBytes));
    bytes.remove_prefix(std::min(bytes.size(), kMaxFrameBytes));
  } while (!bytes.empty());
  return socket.Send(frames);
}

FrameJoiner::Message FrameJoiner::Receive(ZmqSocket& socket) {
  if (!socket.Receive(frame_)) return {};
  Message message{.received = true, .bytes = frame_.bytes()};
  const auto limit = static_cast<std::size_t>(max_bytes_);
  if (frame_.HasMore()) {
    joined_.assign(frame_.bytes());
    std::size_t frames = 1;
    for (bool has_more = true; has_more && socket.Receive(more_); has_more = more_.HasMore()) {
      if (joined_.size() <= limit) joined_.append(more_.bytes());
      ++frames;
    }
    message.bytes = joined_;
    message.needless_frames = frames - std::min(frames, joined_.size() / kMaxFrameBytes + 1);
  }
  message.too_large = message.bytes.size() > limit;
  return message;
}

}  // namespace espalier::io
