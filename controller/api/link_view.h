#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/json.h"
#include "controller/state.h"

namespace espalier::controller {

// What flows do to the links now, by DirectedLink::Index. Host links carry traffic here, but no
// paths: those begin at the leaf.
struct LinkTraffic {
  std::vector<std::int64_t> paths;          // of flows
  std::vector<std::uint64_t> achieved_bps;  // what they achieve, split evenly over their paths
};
// O(flows x hops + links).
LinkTraffic MeasureLinks(State& state);

// The fabric as it is built: nodes and links in their order, which live links and hops count by.
std::string TopologyView(const State& state);
void WriteLink(io::JsonWriter& json, const State& state, fabric::LinkId id,
               const LinkTraffic& traffic);
// A number that differs where WriteLink would, but for rates that differ by less than an eighth.
std::uint64_t LinkDigest(const State& state, fabric::LinkId id, const LinkTraffic& traffic);

// What the path map knows, in all and pair by pair: at most 1,000 pairs, of one source where that
// is not empty.
std::string PathMapView(State& state, const std::string& source);

}  // namespace espalier::controller
