#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/event_loop.h"
#include "common/bus/zmq_socket.h"

// How the buses' messages travel: in frames so small that a stranger, for whom libzmq allocates
// what one frame may have before it knows who it is, costs little.
namespace espalier::io {

// Of a message. Before a peer is known libzmq holds at most three copies of one frame for it,
// besides two buffers of 8 KiB.
inline constexpr std::size_t kMaxFrameBytes = std::size_t{12} << 10;

// Messages of one peer that wait for the loop; beyond it TCP holds the peer back.
inline constexpr int kReceiveHighWaterMark = 256;

// Bounds on what libzmq keeps for each peer of the socket.
void SetLimits(ZmqSocket& socket, int send_high_water_mark);

// Has the kernel ask the host of each peer of the socket for a sign of life when nothing else
// comes, about five times in `silence_limit`, and break the connection when none came, or nothing
// was acknowledged, for so long (whole seconds, 1 at least). TCP alone would wait for minutes: a
// network that comes and goes leaves connections that are dead at one end. A peer whose process
// hangs is not found, as its kernel answers: heartbeats of the controller and reports of the agents
// tell that. libzmq's own heartbeats would find both, but the time that they take grows with the
// square of the number of peers (docs/decisions.md).
void BreakSilentConnections(ZmqSocket& socket, Duration silence_limit);

// Sends a message (not empty), behind a routing id where there is one ("": none).
// The errno of ZmqSocket::Send.
int SendInFrames(ZmqSocket& socket, std::string_view routing_id, std::string_view bytes);

// Puts the frames of a message together again. One object a socket.
class FrameJoiner {
 public:
  explicit FrameJoiner(std::int64_t max_message_bytes) : max_bytes_(max_message_bytes) {}

  // The message whose first frame is the one that the socket gives next, or none: `bytes` is
  // valid until the next call. All of its frames are taken.
  struct Message {
    bool received = false;
    bool too_large = false;
    std::string_view bytes;
    std::size_t needless_frames = 0;  // more than its size takes
  };
  Message Receive(ZmqSocket& socket);

 private:
  const std::int64_t max_bytes_;
  ZmqFrame frame_;
  ZmqFrame more_;
  std::string joined_;
};

}  // namespace espalier::io
