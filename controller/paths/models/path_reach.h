#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/paths.h"

namespace espalier::controller {

// Recognises paths that no source port takes, by a model of the hashes or by ports that were probed
// without regard to their path. This happens where a routing protocol has withdrawn a
// next hop for one destination, and where the switches of two tiers hash alike (polarisation): with
// equal seeds, the aggregation switch that a leaf chooses decides which of its cores follows, and
// of A x C paths only A + C - gcd(A, C) are ever taken.
//
// Ports without an answer must not mislead. Switches limit their answers, and those of one path may
// come late or never. So the worst is assumed: that a path without a known port has all of the
// silent ones. If ports spread evenly, the number of ports of one of M paths among N that were
// probed is binomial with mean m = N / M, and at most s with a probability below
// exp(-(m - s + s ln(s / m))) for s < m (Chernoff). If that is below 10^-6 / M, the s silent ports
// are too few for an even share, and the path has no ports. Losses that do not depend on the path
// are overcome by probing silent ports again (PathLearner): with losses below one half, s stays
// about as large as one order, while m grows. A path that never answers keeps its ports among the
// silent ones, however often they are probed, and nothing is concluded about any path.
//
// Conclusions are drawn when a probe order ends, not from parts of its answers, and are kept in the
// map until the fabric changes or a port of the path is seen.

// Chance leaves out one of M paths with a probability below the inverse of this.
inline double LogOfCertainty(std::size_t path_count) {
  constexpr double kKeysPerError = 1e6;
  return std::log(kKeysPerError * static_cast<double>(path_count));
}

// The number of ports after which a path of `path_count` without a port is unreachable if all of
// them were answered: M ln(10^6 M), which is 61 for 4 paths and 266 for 16.
inline std::size_t EnoughPortsToReach(std::size_t path_count) {
  return static_cast<std::size_t>(
      std::ceil(static_cast<double>(path_count) * LogOfCertainty(path_count)));
}

// Whether a path without a port among `sampled` ones that were answered has none, although `silent`
// others were not answered.
inline bool AreEnough(std::size_t sampled, std::size_t silent, std::size_t path_count) {
  const auto s = static_cast<double>(silent);
  const double mean = static_cast<double>(sampled + silent) / static_cast<double>(path_count);
  if (s >= mean) return false;
  const double exponent = mean - s + (silent == 0 ? 0 : s * std::log(s / mean));
  return exponent >= LogOfCertainty(path_count);
}

// The paths of this key that no source port takes by the ports that probes have seen in the present
// fabric, ascending; none if these are not enough. `path_count`: of those between the key's
// switches. To be called when no probe of the key is under way. O(paths + known ports).
inline std::vector<fabric::PathIndex> ConcludeUnreachable(const fabric::PathMap& map,
                                                          const fabric::PortKey& key,
                                                          std::size_t path_count) {
  std::vector<fabric::PathIndex> unreachable;
  if (path_count < 2) return unreachable;
  std::vector<bool> has_port(path_count);
  std::size_t sampled = 0;
  for (const fabric::PortEntry& entry : map.Ports(key)) {
    if (entry.trust == fabric::PortTrust::kReverify) continue;
    has_port[entry.path.Index()] = true;
    sampled += entry.origin == fabric::PortOrigin::kSampled ? 1U : 0U;
  }
  if (!AreEnough(sampled, map.SilentPorts(key).size(), path_count)) return unreachable;
  for (std::size_t path = 0; path < path_count; ++path) {
    if (!has_port[path]) unreachable.emplace_back(static_cast<std::int32_t>(path));
  }
  return unreachable;
}

// Whether it was concluded that no port takes this path, and none that is known in the present
// fabric does. `paths`: those between the key's switches. O(log paths).
inline bool IsUnreachable(const fabric::PathMap& map, const fabric::PortKey& key,
                          std::span<const fabric::Path> paths, fabric::PathIndex path) {
  return paths.size() >= 2 && std::ranges::binary_search(map.PathsWithoutPorts(key), path);
}

// All such paths of this key, ascending.
inline std::vector<fabric::PathIndex> FindUnreachable(const fabric::PathMap& map,
                                                      const fabric::PortKey& key,
                                                      std::span<const fabric::Path> paths) {
  if (paths.size() < 2) return {};
  const auto without = map.PathsWithoutPorts(key);
  return {without.begin(), without.end()};
}

}  // namespace espalier::controller
