#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/strong_id.h"

namespace espalier {

// One connection, as seen from this side. A bus object never reuses an id: a peer that reconnects
// gets a new PeerId.
using PeerId = StrongId<struct PeerTag, std::uint64_t>;

// Carries messages between one controller and many agents. It is the interface between services
// and the real (common/bus: ZeroMQ) or simulated (common/sim) network. Messages are opaque bytes
// and arrive whole, in order on one connection, at most once; those in flight are lost when a
// connection breaks.
//
// The controller's side learns of a peer from its first message, and of its loss from on_peer_gone
// or from its silence (services send heartbeats). The agent's side has one peer, the controller.
// The bus reconnects to it, and messages that are sent before that may be lost.
//
// Thread safety: all calls and callbacks happen on the thread of the bus's loop.
class Bus {
 public:
  struct Handlers {
    std::function<void(PeerId from, std::string_view bytes)> on_message;
    std::function<void(PeerId peer)> on_peer_gone;
  };

  virtual ~Bus() = default;
  // Must be called once, before the loop runs.
  virtual void SetHandlers(Handlers handlers) = 0;
  // Queues a message; never blocks. Returns false if the peer is gone or its queue is full: the
  // message is dropped, and the caller, which holds the desired state, sends again later.
  virtual bool Send(PeerId to, std::string bytes) = 0;
  // Drops a peer, for example after it broke the protocol or went silent.
  virtual void Disconnect(PeerId peer) = 0;
  // The name that the peer has authenticated as; none if peers need no authentication.
  virtual std::optional<std::string> AuthenticatedName(PeerId /*peer*/) const {
    return std::nullopt;
  }
};

// The agent's only peer.
inline constexpr PeerId kControllerPeer{1};

}  // namespace espalier
