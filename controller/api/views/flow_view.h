#pragma once

#include <string>
#include <string_view>

#include "common/files/json_writer.h"
#include "controller/api/views/shown_flow.h"
#include "controller/controller.h"
#include "controller/placement/ports/return_paths.h"
#include "controller/sightings/sightings.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The names that the API uses.
std::string_view ReasonName(wire::PathReason reason);               // "ASSIGNED", ...
std::string_view ActivityName(wire::FlowState state);               // "ACTIVE", ...
std::string_view TrustName(fabric::PortTrust trust);                // "VERIFIED", ...
std::string NicName(const State& state, const IpAddress& address);  // the address if it is unknown

// What switches say of a flow; of the edge of a forest nothing. O(log flows of the agent).
Attestation AttestationOf(const Controller& controller, const ShownFlow& flow);

// Writes one flow with all its fields as a JSON object.
void WriteFlow(io::JsonWriter& json, const State& state, const ShownFlow& flow,
               const Attestation& attestation, TimePoint now);
// For a flow of TCP, writes the field "returns": which way the acknowledgements of each of its
// paths come back, and whether another source port of the path is known to be better.
void WriteReturns(io::JsonWriter& json, const State& state, const ReturnPaths& returns,
                  const ShownFlow& flow);
// A flow as JSON for the live feed: its identity, how it is steered, what switches say of it, its
// coarse rate, and the directed links of each of its paths.
std::string LiveFlow(const State& state, const ShownFlow& flow, Attestation::State attested);

// A digest that differs if LiveFlow differs in more than the rate.
std::uint64_t LiveFlowDigest(const ShownFlow& flow, Attestation::State attested);

// A rate reduced to its four leading binary digits, so that small changes are not reported.
std::uint64_t CoarseRate(std::uint64_t bits_per_second);

// Adds a value to a digest.
inline void Mix(std::uint64_t& digest, std::uint64_t value) {
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;  // 2^64 / golden ratio
  digest = (digest ^ value) * kOdd;
  digest ^= digest >> 29;
}

}  // namespace espalier::controller
