#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/bus.h"
#include "common/base/result.h"
#include "common/bus/curve.h"
#include "common/bus/zmq_bus.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

// Limits on what one agent may send over all its connections; an agent that sends more is
// disconnected. 0: no limit.
struct PeerLimits {
  double messages_per_second = 0;  // in the long run; as many at once
  double bytes_per_second = 0;
};

// A peer that was refused or disconnected.
struct PeerRefusal {
  enum class Cause {
    kUnknownKey,   // its key is unknown or revoked
    kNoHandshake,  // it does not speak ZeroMQ or CURVE, or has another controller's key
    kTooLarge,     // a message is too large
    kTooMany,      // it sends messages or bytes too fast
    kTooManyConnections,
  };
  Cause cause;
  std::string who;  // the agent's name, else an IP address, else ""
};
std::string PeerRefusalText(PeerRefusal::Cause cause);

// The controller's end. It notices that a peer is gone when a Send fails.
//
// Disconnect says goodbye, ignores what the peer still sends, and shuts its connection down within
// a second, even if the peer does not cooperate. An agent keeps its latest four connections, and
// may open one per second and eight at once. The bus also shuts down connections that deliver no
// message within first_message_timeout, connections that receive twice max_message_bytes or more
// without completing a message, peers to which nothing was sent for three minutes and, when
// descriptors become scarce, the connections that have waited longest for their first message.
struct ZmqRouterOptions {
  std::string endpoint;           // "tcp://10.0.0.1:7400", "tcp://127.0.0.1:*", "ipc:///run/x"
  int send_high_water_mark = 64;  // messages per peer
  std::int64_t max_message_bytes = 4 << 20;
  PeerLimits limits;
  // Time in which a new connection must deliver its first message; agents send a hello at least
  // every five seconds.
  Duration first_message_timeout = std::chrono::seconds(30);
  Duration silence_limit = kSilenceLimit;
  std::optional<CurveServer> curve;  // none: any peer may connect, and messages are plain text
};
class ZmqRouterBus : public Bus {
 public:
  // Errors: kInvalidArgument for a malformed endpoint, kPermissionDenied, kUnavailable if the
  // address is in use or does not belong to this machine.
  static Result<std::unique_ptr<ZmqRouterBus>> Bind(AsioEventLoop& loop,
                                                    const ZmqRouterOptions& options);
  virtual std::string endpoint() const = 0;  // with the actual port
  virtual void OnRefusal(std::function<void(const PeerRefusal&)> on_refusal) = 0;
  virtual void SetLimits(const PeerLimits& limits) = 0;
  // Call after the results of name_of_key have changed: ends connections whose key lost its name.
  virtual void RecheckKeys() = 0;
};

}  // namespace espalier::io
