#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>

#include "common/base/time/event_loop.h"

namespace espalier::io {

// A connection as its places see it.
class Connection {
 public:
  virtual ~Connection() = default;
  // Called when the place is needed, or the server goes: no handler is called after this.
  virtual void Close() = 0;

  std::string source;       // SourceOf its address; "": a unix socket
  bool is_known = false;    // its caller has proved who it is
  bool is_new = true;       // its first request has not arrived
  bool is_reserve = false;  // may only ask for the liveness, or wait for another place
  // When it began to wait for its next request, as a number in the order of all waits; none while
  // a request is being answered.
  std::optional<std::uint64_t> waits_since;
  // While an answer is written: by when the client must have received more of it. The one whose
  // time runs out first is the slowest reader.
  std::optional<TimePoint> writes_until;
};

struct PlaceLimits {
  std::size_t connections = 64;
  std::size_t strangers_of_source = 8;  // connections of one source whose caller is not known
  std::size_t reserve = 16;             // beyond `connections`, for the liveness
  // An answer must be received at this rate, of which a client may be behind by `allowance`.
  double min_bytes_per_second = 8'192;
  Duration allowance = std::chrono::seconds(10);
};

// Divides the places of a server among its connections. Where there is none for a further one, one
// of these gives way: the stranger that has waited longest for its own next request, then any that
// waits, then the slowest reader, if it is behind by half a second. If all are being answered, the
// further connection gets a place of the reserve. Connections there give way to one another only,
// and are answered nothing but whether the process lives, unless another place becomes free in
// time; those who have just come, and have yet to send their first request, do not give way to
// them. So nobody who holds all other places keeps the liveness from those who restart processes.
//
// Thread safety: none. Complexity: O(connections) for each further connection.
class ConnectionPlaces {
 public:
  enum class Place { kNone, kNormal, kReserve };

  explicit ConnectionPlaces(const PlaceLimits& limits) : limits_(limits) {}

  // Finds a place for a connection of this source; may close another.
  Place MakeRoom(const std::string& source, TimePoint now);
  // Gives a connection of the reserve another place, if there is one as MakeRoom finds it.
  bool LeaveReserve(Connection& connection, TimePoint now);
  void Add(Connection& connection) { all_.insert(&connection); }
  void Remove(Connection& connection) { all_.erase(&connection); }
  void CloseAll();

  // The connection waits for a request.
  void Wait(Connection& connection) { connection.waits_since = waits_++; }
  // An answer begins, or some bytes of it were received.
  void BeginWrite(Connection& connection, TimePoint now) const;
  void CountWritten(Connection& connection, std::size_t bytes, TimePoint now) const;

 private:
  template <typename MayGo>
  bool FindPlace(const std::string& source, TimePoint now, const MayGo& may_go);
  template <typename IsMeant>
  std::size_t Count(const IsMeant& is_meant) const;
  template <typename IsMeant>
  bool CloseOne(const IsMeant& is_meant, TimePoint now);

  const PlaceLimits limits_;
  std::unordered_set<Connection*> all_;
  std::uint64_t waits_ = 0;
};

}  // namespace espalier::io
