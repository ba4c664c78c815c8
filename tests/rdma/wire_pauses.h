#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "common/base/time/event_loop.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier::rdma {

// A time in which one host had nothing to send to another.
struct Pause {
  TimePoint from;
  TimePoint to;

  Duration length() const { return to - from; }
};

// The pauses between two hosts by what passes the sender's interface: from the acknowledgement
// after which no queue pair waits for one, to the next packet of a message.
class WirePauses {
 public:
  WirePauses(int from, int to)
      : source_(AddressOfHost(from, false)), destination_(AddressOfHost(to, false)) {}

  // Takes the next packets, in order; ignores those of other hosts.
  void Take(std::span<const Packet> packets);
  const std::vector<Pause>& all() const { return pauses_; }

 private:
  struct Queue {
    std::uint32_t last = 0;  // number of its last packet
    bool waits = false;      // for the acknowledgement of that
  };

  void TakeMessage(const Packet& packet);
  void TakeAcknowledgement(const Packet& packet);

  IpAddress source_;
  IpAddress destination_;
  std::map<std::uint32_t, Queue> queues_;  // by the number of the receiving queue pair
  std::size_t waiting_ = 0;
  TimePoint idle_since_{};  // zero: nothing was sent yet
  std::vector<Pause> pauses_;
};

// How pauses that were told by others differ from those on the wire.
struct PauseErrors {
  std::vector<double> starts;  // seconds, in no order; above zero: told later than it was
  std::vector<double> ends;
  std::size_t clear = 0;     // pauses on the wire that nobody can miss
  std::size_t missed = 0;    // of these
  std::size_t invented = 0;  // told, though there was none
};
// `told` ascends; only what lies within its span counts. Pauses of `clear` or more must be told.
PauseErrors Compare(std::span<const Pause> wire, std::span<const Pause> told, Duration clear);

// The value below which this share of the absolute values lies; 0 if there are none.
double Quantile(std::vector<double> values, double share);

}  // namespace espalier::rdma
