#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/fabric/path_map.h"

namespace espalier::controller {

// Source ports in use, so that no two flows of one key share a port (two TCP connections cannot,
// and per-flow counters would mix two queue pairs).
class PortsInUse {
 public:
  // False where the port is taken.
  bool Take(const fabric::PortKey& key, std::uint16_t port);
  void Release(const fabric::PortKey& key, std::uint16_t port);
  // Takes one and releases another (0: none). False, and nothing is changed, where it is taken.
  bool Exchange(const fabric::PortKey& key, std::uint16_t from, std::uint16_t to);
  bool IsTaken(const fabric::PortKey& key, std::uint16_t port) const;

 private:
  std::unordered_map<fabric::PortKey, std::vector<std::uint16_t>> ports_;  // few a key
};

// Which entries of the path map a flow may be given.
enum class PortNeed {
  kSure,    // a new flow, which can stay on ECMP for a moment: no kReverify
  kUrgent,  // its path is dead: anything that once led along the path
};

// A free port that takes the path: `current` (0: none) if that does already, else the best
// trusted (verified, then predicted, then to be verified again), lowest port among equals.
// None where the map knows no such port.
std::optional<fabric::PortEntry> ChoosePort(const fabric::PathMap& map, const fabric::PortKey& key,
                                            fabric::PathIndex path, const PortsInUse& in_use,
                                            PortNeed need, std::uint16_t current);

}  // namespace espalier::controller
