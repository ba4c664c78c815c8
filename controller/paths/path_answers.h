#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "proto/messages.h"

namespace espalier::controller {

// How answers to probes tell which path their port takes: which TTLs to probe, and which path the
// answers fit.

// The hops of these paths, all of equal length and between the same ends, at which a switch can
// answer: the last one does not count if it ends at a NIC with several uplinks.
struct AnsweredHops {
  std::uint8_t first_ttl = 2;  // expires behind the first hop; 1 if that is the uplink of a NIC
  std::size_t count = 0;
};
AnsweredHops HopsThatAnswer(const fabric::Topology& topology, std::span<const fabric::Path> paths);

// The TTLs whose answers tell these paths of equal length apart; empty for fewer than two paths.
// O(hops x paths), and log paths times as much if the paths are not listed by their links.
std::vector<std::uint8_t> DistinguishingTtls(const fabric::Topology& topology,
                                             std::span<const fabric::Path> paths);
// The same, but only the last of them where its answer is enough: where all paths enter different
// switches there, as at the cores of a fabric with planes, each of which belongs to one path.
std::vector<std::uint8_t> FewestTtls(const fabric::Topology& topology,
                                     std::span<const fabric::Path> paths);

// The only path that all these answers fit; none if no path or several do.
std::optional<fabric::PathIndex> PathOfAnswers(const fabric::Topology& topology,
                                               std::span<const fabric::Path> paths,
                                               std::span<const wire::ProbeAnswer> answers);

}  // namespace espalier::controller
