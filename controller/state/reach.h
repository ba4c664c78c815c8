#pragma once

#include <cstdint>
#include <string_view>

#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/topology.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Whether the packets of a flow get through, by the states of the links that they take: those of
// its path, or of the path before if its port still leads there, and those of both NICs.
enum class Reach : std::uint8_t {
  kFine,
  kUnknownEnd,     // the topology does not have its source or destination: it is not steered
  kOnDrainedLink,  // a link that traffic should leave, such as that of a NIC, which it cannot leave
  kOnDeadLink,     // a link that is down, such as that of a NIC
  kWithoutPath,    // no path between its leaves is usable
};
std::string_view ReachName(Reach reach);  // "FINE", "WITHOUT_PATH", ...

// With the link states of `topology`, which may be others than the present ones. O(subflows x
// hops).
Reach ReachOf(const State& state, const fabric::Topology& topology, const Flow& flow);
Reach ReachOf(const State& state, const fabric::Topology& topology, const EdgeReservation& edge);
// The same for a flow between two leaves that takes plain ECMP: switches choose among the paths
// that are up, drained ones included.
Reach ReachUnsteered(const State& state, const fabric::Topology& topology, const Flow& flow);
// By the links of the NICs alone.
Reach ReachOfEnds(const State& state, const fabric::Topology& topology, const fabric::PortKey& key);

// Counts of flows and of forest edges that are not kFine.
struct ReachCounts {
  std::int64_t unknown_end = 0;
  std::int64_t on_drained_link = 0;
  std::int64_t on_dead_link = 0;
  std::int64_t without_path = 0;

  void Add(Reach reach);
  // Those whose packets do not get through.
  std::int64_t CutOff() const { return on_dead_link + without_path; }
};
// Of all flows and edges. O(flows x hops).
ReachCounts CountReach(const State& state);

}  // namespace espalier::controller
