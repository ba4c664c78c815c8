#pragma once

#include <string>
#include <string_view>

#include "common/files/json.h"
#include "controller/api/shown_flow.h"
#include "controller/state/state.h"

namespace espalier::controller {

// How the API names things.
std::string_view ReasonName(wire::PathReason reason);               // "ASSIGNED", ...
std::string_view ActivityName(wire::FlowState state);               // "ACTIVE", ...
std::string NicName(const State& state, const IpAddress& address);  // the address where unknown

// One flow as an object, whole.
void WriteFlow(io::JsonWriter& json, const State& state, const ShownFlow& flow, TimePoint now);
// What the live feed tells of a flow: who, how it is steered and how fast (coarsely), and the
// directions of links that each of its paths takes.
std::string LiveFlow(const State& state, const ShownFlow& flow);

// A number that differs where LiveFlow would but for the rate.
std::uint64_t LiveFlowDigest(const ShownFlow& flow);

// So much of a rate as is worth telling: its four leading binary digits.
std::uint64_t CoarseRate(std::uint64_t bits_per_second);

// Adds a value to a digest.
inline void Mix(std::uint64_t& digest, std::uint64_t value) {
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;  // 2^64 / golden ratio
  digest = (digest ^ value) * kOdd;
  digest ^= digest >> 29;
}

}  // namespace espalier::controller
