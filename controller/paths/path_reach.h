#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "common/fabric/path_map.h"
#include "common/fabric/paths.h"

namespace espalier::controller {

// Recognises paths that no source port takes, by a model of the hashes or by ports that were probed
// without regard to their path. This happens where a routing protocol has withdrawn a
// next hop for one destination, and where the switches of two tiers hash alike (polarisation): with
// equal seeds, the aggregation switch that a leaf chooses decides which of its cores follows, and
// of A x C paths only A + C - gcd(A, C) are ever taken.

// The number of ports after which a path of `path_count` without a port is unreachable: chance
// would leave out one of the M paths with a probability below 10^-6, after M ln(10^6 M) ports (61
// for 4 paths, 266 for 16), if ports spread evenly.
inline std::size_t EnoughPortsToReach(std::size_t path_count) {
  constexpr double kKeysPerError = 1e6;
  const auto paths = static_cast<double>(path_count);
  return static_cast<std::size_t>(std::ceil(paths * std::log(kKeysPerError * paths)));
}

// Whether so many ports were sampled that a path without one has none. Not if ports were silent
// that a path could have: switches limit their answers, and those of one path may give none.
inline bool AreEnough(const fabric::PathMap& map, const fabric::PortKey& key, std::size_t sampled,
                      std::size_t path_count) {
  return sampled >= EnoughPortsToReach(path_count) &&
         4 * path_count * map.SilentPorts(key) < sampled;
}

// Whether none of the ports that are known in the present fabric takes this path, and either a
// model predicts none or so many were sampled that none is to be expected. `paths`: those between
// the key's switches. O(known ports + paths).
inline bool IsUnreachable(const fabric::PathMap& map, const fabric::PortKey& key,
                          std::span<const fabric::Path> paths, fabric::PathIndex path) {
  if (paths.size() < 2) return false;
  std::size_t sampled = 0;
  for (const fabric::PortEntry& entry : map.Ports(key)) {
    if (entry.trust == fabric::PortTrust::kReverify) continue;
    if (entry.path == path) return false;
    sampled += entry.origin == fabric::PortOrigin::kSampled ? 1U : 0U;
  }
  return AreEnough(map, key, sampled, paths.size()) ||
         std::ranges::binary_search(map.PathsWithoutPorts(key), path);
}

// All such paths of this key, ascending. O(paths + known ports).
inline std::vector<fabric::PathIndex> FindUnreachable(const fabric::PathMap& map,
                                                      const fabric::PortKey& key,
                                                      std::span<const fabric::Path> paths) {
  std::vector<fabric::PathIndex> unreachable;
  if (paths.size() < 2) return unreachable;
  std::vector<bool> has_port(paths.size());
  std::size_t sampled = 0;
  for (const fabric::PortEntry& entry : map.Ports(key)) {
    if (entry.trust == fabric::PortTrust::kReverify) continue;
    has_port[entry.path.Index()] = true;
    sampled += entry.origin == fabric::PortOrigin::kSampled ? 1U : 0U;
  }
  if (!AreEnough(map, key, sampled, paths.size())) {
    std::ranges::copy_if(map.PathsWithoutPorts(key), std::back_inserter(unreachable),
                         [&](fabric::PathIndex path) { return !has_port[path.Index()]; });
    return unreachable;
  }
  for (std::size_t path = 0; path < paths.size(); ++path) {
    if (!has_port[path]) unreachable.emplace_back(static_cast<std::int32_t>(path));
  }
  return unreachable;
}

}  // namespace espalier::controller
