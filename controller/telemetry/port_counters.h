#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/telemetry/sflow.h"

namespace espalier::telemetry {

// Rates of links from the octet counters of the ports at their ends, and whether a switch sends as
// many packet samples as its packets would make.
//
// A rate is the difference of two counter samples over the time between them by the switch's own
// clock, if that agrees with ours to a fifth; otherwise the pair is not used. Counters that fall,
// or that are all ones, are unknown. A rate above the link's, or the port's, by more than a tenth
// is impossible: it is dropped and counted. What the sending end counts goes before what the
// receiving end counts.
//
// Switches limit how many samples they send, and say so nowhere. So a port's samples are compared
// with its packets: if fewer than 80 % of 50 or more expected ones came, each stands for more.
//
// Thread safety: none. Memory: O(ports of the topology).
class PortCounters {
 public:
  explicit PortCounters(const fabric::Topology& topology) : topology_(topology) {}

  struct Arrival {
    std::size_t exporter = 0;
    std::uint32_t uptime_ms = 0;
    TimePoint at{};
    double port_bps = 0;  // the port's own speed, where the switch says it
  };
  // Counters of the port at which `out` leaves the switch.
  void Handle(fabric::DirectedLink out, const SflowCounterSample::Interface& counters,
              const Arrival& arrival);
  // A packet was sampled as it came in at this port, one of `rate`.
  void CountSample(fabric::DirectedLink out, std::uint32_t rate);
  void HandleRestart(std::size_t exporter);

  struct Load {
    fabric::DirectedLink link;
    double bps = 0;
    Duration span{};  // over which it was measured
  };
  // The rates that were measured since the last call.
  std::vector<Load> TakeLoads();

  // What each sample of this port stands for beyond its rate; 1 where nothing is known.
  double UnderSampling(fabric::DirectedLink out) const;
  std::size_t policed() const;                                // ports that send too few samples
  std::uint64_t implausible() const { return implausible_; }  // pairs of counters, dropped

 private:
  struct Port {
    std::size_t exporter = 0;
    SflowCounterSample::Interface last;
    std::uint32_t uptime_ms = 0;
    TimePoint at{};
    bool has_last = false;
    std::uint64_t samples = 0;  // since the last counters
    std::uint32_t rate = 0;     // of the last sample
    double under_sampling = 1;
  };

  void NoteLoad(const Load& load, double port_bps, bool is_sender);
  void CompareSamples(Port& port, const SflowCounterSample::Interface& counters) const;

  const fabric::Topology& topology_;
  std::unordered_map<std::size_t, Port> ports_;         // by DirectedLink::Index of out
  std::map<std::size_t, std::pair<Load, bool>> loads_;  // new ones; whether the sender's
  std::uint64_t implausible_ = 0;
};

}  // namespace espalier::telemetry
