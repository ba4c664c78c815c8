#pragma once

#include <memory>
#include <string>

#include "common/base/bus.h"
#include "common/base/result.h"
#include "common/io/asio_event_loop.h"

namespace espalier::io {

// The controller's end: a ROUTER socket in the loop. `endpoint` as ZeroMQ writes it
// ("tcp://10.0.0.1:7400", "tcp://127.0.0.1:*", "ipc:///run/x")..
struct ZmqRouterOptions {
  std::string endpoint;
  int send_high_water_mark = 64;  // messages a peer
  std::int64_t max_message_bytes = 4 << 20;
};
class ZmqRouterBus : public Bus {
 public:
  static Result<std::unique_ptr<ZmqRouterBus>> Bind(AsioEventLoop& loop,
                                                    const ZmqRouterOptions& options);
  virtual std::string endpoint() const = 0;  // with the port that it got
};

// An agent's end: a DEALER socket with a random routing id; reconnects by itself.
struct ZmqDealerOptions {
  std::string endpoint;
  int send_high_water_mark = 64;
  std::int64_t max_message_bytes = 4 << 20;
};
// Errors: kInvalidArgument for a malformed endpoint.
Result<std::unique_ptr<Bus>> ConnectZmqDealer(AsioEventLoop& loop, const ZmqDealerOptions& options);

}  // namespace espalier::io
