#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/files/json_writer.h"
#include "controller/api/views/flow_statistics.h"
#include "controller/controller.h"
#include "controller/state/state.h"

namespace espalier::controller {

// A node and a link of the topology as JSON objects, without their present traffic.
std::string NodeView(const State& state, fabric::NodeId id);
std::string BuiltLinkView(const State& state, fabric::LinkId id);
// The state of a link as operators see it.
enum class ShownLinkState : std::uint8_t { kUp, kLossy, kDrained, kDown };
ShownLinkState ShownState(const State& state, fabric::LinkId id);
// A node with its present state as a JSON object: DOWN or DRAINED if an operator has said so or
// none of its links is UP, and whether the agent of its host is connected.
std::string NodeStateView(const State& state, fabric::NodeId id);
// Writes a link with its state, traffic and background load as a JSON object.
void WriteLink(io::JsonWriter& json, const Controller& controller, fabric::LinkId id,
               const LinkTraffic& traffic);
// The load of a directed link as a rational number, such as "3/2" if flows are split or link rates
// differ; "0" if it takes no flow. `loads`: BusiestLoads.
std::string LoadText(const State& state, std::span<const std::int64_t> loads,
                     fabric::DirectedLink link);
// Writes the background load of a directed link as a member of an object; nothing if it is unknown.
void WriteBackground(io::JsonWriter& json, std::string_view key, const Controller& controller,
                     fabric::DirectedLink link);
// A digest that differs if the result of WriteLink does; rates within an eighth count as equal, and
// of the background loads only their part of the load counts.
std::uint64_t LinkDigest(const State& state, fabric::LinkId id, const LinkTraffic& traffic);

}  // namespace espalier::controller
