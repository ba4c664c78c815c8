#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/fabric/path_map.h"

namespace espalier::controller {

// The source ports in use, so that no two flows of one key share a port. Two TCP connections cannot
// share one, and counters per flow would mix up two queue pairs.
class PortsInUse {
 public:
  // False if the port is taken.
  bool Take(const fabric::PortKey& key, std::uint16_t port);
  void Release(const fabric::PortKey& key, std::uint16_t port);
  // Takes `to` and releases `from` (0: none). False, without any change, if `to` is taken.
  bool Exchange(const fabric::PortKey& key, std::uint16_t from, std::uint16_t to);
  bool IsTaken(const fabric::PortKey& key, std::uint16_t port) const;

 private:
  std::unordered_map<fabric::PortKey, std::vector<std::uint16_t>> ports_;  // few per key
};

// Which entries of the path map a flow may use.
enum class PortNeed {
  kSure,    // not kReverify: for a new flow, which can stay on ECMP for a moment
  kUrgent,  // any entry: for a flow whose path is dead
};

// Returns a free port that takes the path: `current` (0: none) if it does, else the most trusted
// one (verified, then predicted, then kReverify), the lowest port among equals. None if the map
// knows no such port. Ports with less doubt (0: none, as if `doubt_of` is empty) come first.
std::optional<fabric::PortEntry> ChoosePort(const fabric::PathMap& map, const fabric::PortKey& key,
                                            fabric::PathIndex path, const PortsInUse& in_use,
                                            PortNeed need, std::uint16_t current,
                                            const std::function<int(std::uint16_t)>& doubt_of = {});

}  // namespace espalier::controller
