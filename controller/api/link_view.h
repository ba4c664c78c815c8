#pragma once

#include <cstdint>
#include <string>

#include "common/files/json.h"
#include "controller/api/flow_statistics.h"
#include "controller/state/state.h"

namespace espalier::controller {

// A node and a link of the fabric as it is built, as objects.
std::string NodeView(const State& state, fabric::NodeId id);
std::string BuiltLinkView(const State& state, fabric::LinkId id);
// A link with its state and what flows do to it.
void WriteLink(io::JsonWriter& json, const State& state, fabric::LinkId id,
               const LinkTraffic& traffic);
// A number that differs where WriteLink would, but for rates that differ by less than an eighth.
std::uint64_t LinkDigest(const State& state, fabric::LinkId id, const LinkTraffic& traffic);

}  // namespace espalier::controller
