#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/time/event_loop.h"

namespace espalier::io {

// Tracks the system's connections of a listening ZeroMQ socket and ends them. A ROUTER socket has
// no call for that, and a peer may ignore any request to close.
//
// libzmq owns the descriptors and closes them on its own thread, so a descriptor can belong to
// another connection a moment later. A connection is therefore identified by its socket's
// SO_COOKIE, which Linux never reuses. It is ended through a duplicate of the descriptor, after
// comparing the duplicate's cookie. So no wrong connection is shut down; at worst none is, and
// Sweep tries again.
//
// Cost: two system calls to accept and to end one, and one in Sweep per connection that it checks.
// Thread safety: the loop's thread.
class ZmqConnections {
 public:
  struct Limits {
    std::size_t connections;  // at the same time
    std::uint64_t
        max_partial_message_bytes;  // received from the network since the last whole message
    Duration
        first_message;  // time for a connection to deliver its first message, handshake included
  };
  struct Id {
    int descriptor = -1;
    std::uint64_t cookie = 0;  // 0: no connection
    bool operator==(const Id&) const = default;
  };

  explicit ZmqConnections(const Limits& limits) : limits_(limits) {}

  // Handle events of libzmq's monitor. If there are too many connections, the one that has waited
  // longest without a first message is ended.
  void HandleAccepted(int descriptor, TimePoint now);
  void HandleClosed(int descriptor);

  // The connection of this descriptor if its other end has this address (in libzmq's form); else an
  // id without a cookie.
  Id Find(int descriptor, std::string_view address) const;
  bool IsOpen(const Id& id) const;
  // Call when a whole message has arrived on the connection.
  void Hear(const Id& id);
  // Shuts both directions down; libzmq then detects the broken connection and closes it.
  void End(const Id& id);
  // The same, at the next Sweep: a cooperative peer has handled the goodbye by then.
  void EndSoon(const Id& id);

  // Checks the next kSliceOfSweep connections, ends those that send no first message or never
  // complete a message, and returns the latter. Call it again after SweepInterval.
  std::vector<Id> Sweep(TimePoint now);
  Duration SweepInterval() const;

  std::size_t size() const { return count_; }

 private:
  struct Connection {
    std::uint64_t cookie = 0;  // 0: there is none
    TimePoint accepted;
    std::uint64_t bytes_when_heard = 0;
    bool was_heard = false;        // ever
    bool was_heard_since = false;  // the latest check
    bool is_ending = false;
  };

  std::uint64_t CookieAt(int descriptor) const;  // 0: no connection
  Connection* At(const Id& id);
  void EndUnheard(TimePoint now);
  bool NeverEndsItsMessage(int descriptor, Connection& connection) const;

  const Limits limits_;
  std::vector<Connection> connections_;  // by descriptor
  std::size_t count_ = 0;
  std::deque<Id> unheard_;  // oldest first; some have sent a message or are gone
  std::size_t next_in_sweep_ = 0;
};

}  // namespace espalier::io
