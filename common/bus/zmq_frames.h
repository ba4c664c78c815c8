#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/time/event_loop.h"
#include "common/bus/zmq_socket.h"

// Messages of the buses travel in small frames, because libzmq allocates the maximum size of a
// frame for a peer before it is authenticated.
namespace espalier::io {

// The largest frame of a message. Before a peer is authenticated, libzmq holds at most three copies
// of one frame for it, besides two buffers of 8 KiB.
inline constexpr std::size_t kMaxFrameBytes = std::size_t{12} << 10;

// The number of messages of one peer that may wait for the loop; beyond it, TCP flow control stops
// the peer.
inline constexpr int kReceiveHighWaterMark = 256;

// Bounds what libzmq buffers for each peer of the socket.
void SetLimits(ZmqSocket& socket, int send_high_water_mark);

// Makes the kernel send TCP keepalive probes to an idle peer, about five in `silence_limit`, and
// break the connection if nothing is received or acknowledged for that long (whole seconds, at
// least 1). TCP alone would wait for minutes, and an unstable network leaves connections that are
// dead at one end. A peer whose process hangs is not detected, as its kernel still answers; the
// controller's heartbeats and the agents' reports detect that. libzmq's own heartbeats would detect
// both, but their cost grows with the square of the number of peers (docs/decisions.md).
void BreakSilentConnections(ZmqSocket& socket, Duration silence_limit);

// Sends a message, which must not be empty, after a routing id ("": none).
// Returns the errno of ZmqSocket::Send.
int SendInFrames(ZmqSocket& socket, std::string_view routing_id, std::string_view bytes);

// Reassembles messages from their frames. One object per socket.
class FrameJoiner {
 public:
  explicit FrameJoiner(std::int64_t max_message_bytes) : max_bytes_(max_message_bytes) {}

  // Receives the next message with all its frames, or none. `bytes` is valid until the next call.
  struct Message {
    bool received = false;
    bool too_large = false;
    std::string_view bytes;
    std::size_t needless_frames = 0;  // frames beyond those that its size requires
  };
  Message Receive(ZmqSocket& socket);

 private:
  const std::int64_t max_bytes_;
  ZmqFrame frame_;
  ZmqFrame more_;
  std::string joined_;
};

}  // namespace espalier::io
