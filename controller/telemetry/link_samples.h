#pragma once

#include <cstdint>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"

namespace espalier::telemetry {

// Loads of links by packet samples, for links whose ports send no counters.
//
// A load is told once its standard error, at 95 %, is below a sixteenth of the link's rate (the
// controller counts loads in sixteenths), after a second at least; after ten seconds an eighth is
// enough, or the samples are dropped. No samples tell that the load is small, if the switch at the
// end of the link has sent some lately.
//
// Thread safety: none. Memory: O(links).
class LinkSamples {
 public:
  static constexpr Duration kLeastSpan = std::chrono::seconds(1);
  static constexpr Duration kGreatestSpan = std::chrono::seconds(10);

  explicit LinkSamples(const fabric::Topology& topology);

  // A packet was sampled where the link ends. `weight`: how many packets it stands for.
  void Add(fabric::DirectedLink link, std::uint32_t frame_bytes, double weight, TimePoint now);
  // The link has counters: its samples need not tell its load for a while.
  void HandleCounters(fabric::DirectedLink link, TimePoint now);

  struct Load {
    fabric::DirectedLink link;
    double bps = 0;
    double error_bps = 0;  // 95 %
  };
  std::vector<Load> TakeLoads(TimePoint now);

 private:
  struct Sum {
    TimePoint since{};
    double bytes = 0;
    double squared_bytes = 0;
    double typical = 0;  // what a sample stands for, in bytes: of the last one
    TimePoint sampled{};
    TimePoint counted{};  // when counters last told the load
    bool is_counted = false;
    bool has_samples = false;
  };

  const fabric::Topology& topology_;
  std::vector<Sum> sums_;  // by DirectedLink::Index
};

}  // namespace espalier::telemetry
