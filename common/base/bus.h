#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/strong_id.h"

namespace espalier {

// One connection, as seen from this side; never reused by a bus object. A peer that reconnects
// is a new PeerId.
using PeerId = StrongId<struct PeerTag, std::uint64_t>;

// Message transport between one controller and many agents: the seam between services and the
// real (common/bus: ZeroMQ) or simulated (common/sim) network. Messages are opaque bytes, whole,
// in order on one connection, at most once; a connection that breaks may lose those in flight.
//
// The controller's side learns of a peer by its first message and of its loss by on_peer_gone or
// by its silence (heartbeats are the services' business). The agent's side has one peer, the
// controller; it is reconnected by the bus itself, and Send before that may be lost.
//
// Thread safety: all calls and callbacks on the thread of the loop that the bus was made with.
class Bus {
 public:
  struct Handlers {
    std::function<void(PeerId from, std::string_view bytes)> on_message;
    std::function<void(PeerId peer)> on_peer_gone;
  };

  virtual ~Bus() = default;
  // Must be called once, before the loop runs.
  virtual void SetHandlers(Handlers handlers) = 0;
  // Queues a message; never blocks. False where the peer is gone or its queue is full: the
  // message is dropped, and the caller, who holds the desired state, sends anew later.
  virtual bool Send(PeerId to, std::string bytes) = 0;
  // Forgets a peer (it broke the protocol, or went silent).
  virtual void Disconnect(PeerId peer) = 0;
  // The name that the peer has proved to have; none where peers need not prove anything.
  virtual std::optional<std::string> AuthenticatedName(PeerId /*peer*/) const {
    return std::nullopt;
  }
};

// The agent's only peer.
inline constexpr PeerId kControllerPeer{1};

}  // namespace espalier
