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
#include "common/loop/asio_event_loop.h"

namespace espalier::io {

// The bus over ZeroMQ, inside an Asio loop: a ROUTER at the controller, a DEALER at each agent;
// encrypted and authenticated where both have CURVE keys.
//
// Every connection of an agent is a new DEALER socket with a random routing id, so that a
// connection that breaks is a new PeerId at the controller and none of its messages arrives late
// on the next one. A message larger than max_message_bytes breaks the connection; an empty one
// cannot be sent (it is how the controller says goodbye in Disconnect).
//
// One turn of the loop takes a bounded number of messages, so that timers and HTTP get theirs.

// Without a sign of life of the other end's libzmq for so long, a connection is broken. A process
// that is stopped for less keeps its connection.
inline constexpr Duration kSilenceLimit = std::chrono::seconds(5);

// What one agent may send, over any connections; who sends more is disconnected. 0: any.
struct PeerLimits {
  double messages_per_second = 0;  // on the long run; as many in one moment
  double bytes_per_second = 0;
};

// A peer that was not let in, or was sent away.
struct PeerRefusal {
  enum class Cause {
    kUnknownKey,   // its key is not known, or not any more
    kNoHandshake,  // it does not speak CURVE, has another controller's key, or speaks no ZeroMQ
    kTooLarge,     // a message
    kTooMany,      // messages or bytes in too short a time
    kTooManyConnections,
  };
  Cause cause;
  std::string who;  // the agent's name, else an IP address, else ""
};
std::string PeerRefusalText(PeerRefusal::Cause cause);

// The controller's end. A peer is known gone when a Send finds that it is.
//
// Disconnect says goodbye, takes nothing more of the peer, and shuts its connection down within a
// second, whatever the peer thinks of it. Besides, an agent
// has its latest four connections, and may make one a second and eight at one moment; connections
// that do not deliver a message in first_message_timeout, or receive twice max_message_bytes and
// more without the end of a message, are shut down; so are peers to which nothing was sent for
// three minutes, and, when descriptors grow scarce, those that have been silent the longest.
struct ZmqRouterOptions {
  std::string endpoint;           // "tcp://10.0.0.1:7400", "tcp://127.0.0.1:*", "ipc:///run/x"
  int send_high_water_mark = 64;  // messages a peer
  std::int64_t max_message_bytes = 4 << 20;
  PeerLimits limits;
  // For a new connection to deliver its first message; agents greet every five seconds at least.
  Duration first_message_timeout = std::chrono::seconds(30);
  Duration silence_limit = kSilenceLimit;
  std::optional<CurveServer> curve;  // none: anybody may connect and all is plain text
};
class ZmqRouterBus : public Bus {
 public:
  // Errors: kInvalidArgument for a malformed endpoint, kPermissionDenied, kUnavailable where the
  // address is in use or not this machine's.
  static Result<std::unique_ptr<ZmqRouterBus>> Bind(AsioEventLoop& loop,
                                                    const ZmqRouterOptions& options);
  virtual std::string endpoint() const = 0;  // with the port that it got
  virtual void OnRefusal(std::function<void(const PeerRefusal&)> on_refusal) = 0;
  virtual void SetLimits(const PeerLimits& limits) = 0;
  // What name_of_key answers has changed: connections whose key has lost its name end.
  virtual void RecheckKeys() = 0;
};

// An agent's end. Reconnects by itself, 50 to 150 ms after a connection broke or an attempt
// failed, seconds after its key was refused; Send is false meanwhile. on_peer_gone is for
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
  // Connects anew with these.
  virtual void SetKeys(CurveClient keys) = 0;
};

}  // namespace espalier::io
