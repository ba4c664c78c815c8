#pragma once

#include <cstdint>
#include <string>

#include "common/io/json.h"
#include "controller/api/flow_census.h"
#include "controller/state.h"

namespace espalier::controller {

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
