#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/event_loop.h"

namespace espalier::io {

// The connections that a listening ZeroMQ socket has accepted, as the system knows them, so that
// one can really be ended: a ROUTER has no call for that, and a peer may ignore any request to go.
//
// libzmq owns the descriptors and closes them on a thread of its own, so a number can mean another
// connection a moment later. A connection is therefore known by its socket's SO_COOKIE, a number
// that Linux never uses twice, and is ended through a duplicate of the descriptor, after the
// duplicate's cookie was compared: a wrong connection is never shut down, at worst none is, and
// Sweep tries again.
//
// Cost: accepting and ending two system calls each, Sweep one for each connection that it looks at.
// Thread safety: the loop's thread.
class ZmqConnections {
 public:
  struct Limits {
    std::size_t connections;  // at one time
    std::uint64_t
        max_partial_message_bytes;  // received from the network since the last whole message
    Duration first_message;         // for a connection to deliver one; covers the handshake
  };
  struct Id {
    int descriptor = -1;
    std::uint64_t cookie = 0;  // 0: no connection
    bool operator==(const Id&) const = default;
  };

  explicit ZmqConnections(const Limits& limits) : limits_(limits) {}

  // What libzmq's monitor tells. Where there are too many connections, the one that has kept its
  // first message back the longest makes room.
  void HandleAccepted(int descriptor, TimePoint now);
  void HandleClosed(int descriptor);

  // The connection of this descriptor, if its other end has this address (as libzmq writes it);
  // else one without a cookie.
  Id Find(int descriptor, std::string_view address) const;
  bool IsOpen(const Id& id) const;
  // A whole message came by it.
  void Hear(const Id& id);
  // Shuts both directions down; libzmq then finds the connection broken and closes it.
  void End(const Id& id);
  // The same, with the next Sweep: a peer that is polite has heard its goodbye by then.
  void EndSoon(const Id& id);

  // Looks at the next kSliceOfSweep connections, ends those that keep their first message back or
  // never end a message, and returns the latter. The pause until it is due again is SweepInterval.
  std::vector<Id> Sweep(TimePoint now);
  Duration SweepInterval() const;

  std::size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    std::uint64_t cookie = 0;
    TimePoint accepted;
    std::uint64_t bytes_when_heard = 0;
    bool was_heard = false;        // ever
    bool was_heard_since = false;  // the last look
    bool is_ending = false;
  };

  Connection* At(const Id& id);
  void EndUnheard(TimePoint now);
  bool NeverEndsItsMessage(int descriptor, Connection& connection) const;

  const Limits limits_;
  std::map<int, Connection> connections_;  // by descriptor
  std::deque<Id> unheard_;                 // oldest first; some have been heard or are gone
  int next_in_sweep_ = 0;
};

}  // namespace espalier::io
