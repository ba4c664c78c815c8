#pragma once

#include <memory>
#include <string>

#include "common/base/bus.h"
#include "common/base/result.h"
#include "common/io/asio_event_loop.h"

namespace espalier::io {

// The bus over ZeroMQ, inside an Asio loop: a ROUTER at the controller, a DEALER at each agent.
//
// Every connection of an agent is a new DEALER socket with a random routing id, so that a
// connection that breaks is a new PeerId at the controller and none of its messages arrives late
// on the next one. A message larger than max_message_bytes breaks the connection; an empty one
// cannot be sent (it is how the controller says goodbye in Disconnect).
//
// One turn of the loop takes a bounded number of messages, so that timers and HTTP get theirs.

// The controller's end. A peer is known gone when a Send finds that it is.
struct ZmqRouterOptions {
  std::string endpoint;           // "tcp://10.0.0.1:7400", "tcp://127.0.0.1:*", "ipc:///run/x"
  int send_high_water_mark = 64;  // messages a peer
  std::int64_t max_message_bytes = 4 << 20;
};
class ZmqRouterBus : public Bus {
 public:
  // Errors: kInvalidArgument for a malformed endpoint, kPermissionDenied, kUnavailable where the
  // address is in use or not this machine's.
  static Result<std::unique_ptr<ZmqRouterBus>> Bind(AsioEventLoop& loop,
                                                    const ZmqRouterOptions& options);
  virtual std::string endpoint() const = 0;  // with the port that it got
};

// An agent's end. Reconnects by itself, 50 to 150 ms after a connection broke or an attempt
// failed; Send is false meanwhile. on_peer_gone is for connections that had been established.
struct ZmqDealerOptions {
  std::string endpoint;
  int send_high_water_mark = 64;
  std::int64_t max_message_bytes = 4 << 20;
};
// Errors: kInvalidArgument for a malformed endpoint.
Result<std::unique_ptr<Bus>> ConnectZmqDealer(AsioEventLoop& loop, const ZmqDealerOptions& options);

}  // namespace espalier::io
