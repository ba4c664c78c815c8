#pragma once

#include <chrono>

#include "common/base/time/event_loop.h"

namespace espalier::io {

// The bus over ZeroMQ, inside an Asio loop: a ROUTER at the controller, a DEALER at each agent,
// encrypted and authenticated if both have CURVE keys.
//
// Every connection of an agent is a new DEALER socket with a random routing id. A new connection is
// therefore a new PeerId at the controller, and no message of the broken one arrives late on it. A
// message larger than max_message_bytes breaks the connection. An empty message cannot be sent: it
// is the goodbye that the controller sends in Disconnect.
//
// One turn of the loop handles a bounded number of messages, so that timers and HTTP get their
// share.

// A connection breaks after this time without a sign of life from the other host. A process that is
// stopped for less keeps its connection.
inline constexpr Duration kSilenceLimit = std::chrono::seconds(5);

}  // namespace espalier::io
