#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/bus.h"
#include "common/base/result.h"
#include "common/bus/curve.h"
#include "common/bus/zmq_bus.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

// An agent's end. It reconnects 50 to 150 ms after a connection broke or an attempt failed, and
// some seconds after its key was refused; Send returns false meanwhile. on_peer_gone is called for
// connections that had been established.
struct ZmqDealerOptions {
  std::string endpoint;
  int send_high_water_mark = 64;
  std::int64_t max_message_bytes = 4 << 20;
  std::optional<CurveClient> curve;
  Duration silence_limit = kSilenceLimit;
};
class ZmqDealerBus : public Bus {
 public:
  // Errors: kInvalidArgument for a malformed endpoint.
  static Result<std::unique_ptr<ZmqDealerBus>> Connect(AsioEventLoop& loop,
                                                       const ZmqDealerOptions& options);
  // Reconnects with these keys.
  virtual void SetKeys(CurveClient keys) = 0;
};

}  // namespace espalier::io
