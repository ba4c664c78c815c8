#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/ecmp/port_index.h"
#include "common/fabric/ecmp/port_set.h"

namespace espalier::controller {

// Which entries of the path map a flow may use.
enum class PortNeed {
  kSure,    // not kReverify: for a new flow, which can stay on ECMP for a moment
  kUrgent,  // any entry: for a flow whose path is dead
};

// The source ports in use, so that no two flows of one key share a port. Two TCP connections cannot
// share one, and counters per flow would mix up two queue pairs. Each call is O(1).
class PortsInUse {
 public:
  // False if the port is taken.
  bool Take(const fabric::PortKey& key, std::uint16_t port) {
    return keys_[key].taken.Insert(port);
  }
  void Release(const fabric::PortKey& key, std::uint16_t port);
  // Takes `to` and releases `from` (0: none). False, without any change, if `to` is taken.
  bool Exchange(const fabric::PortKey& key, std::uint16_t from, std::uint16_t to);
  bool IsTaken(const fabric::PortKey& key, std::uint16_t port) const;
  // The ports of a key that are taken; null: none.
  const fabric::PortSet* OfKey(const fabric::PortKey& key) const;

  // Remembers that no known port of this path is free. It holds until a port of the key is released
  // or the map learns one.
  void RememberNone(const fabric::PathMap& map, const fabric::PortKey& key, fabric::PathIndex path,
                    PortNeed need) const;
  bool RemembersNone(const fabric::PathMap& map, const fabric::PortKey& key, fabric::PathIndex path,
                     PortNeed need) const;

  // A measure of the work of all searches for a port so far: entries, words of 64 ports, ports that
  // were considered, and searches that were answered at once.
  std::uint64_t lookups() const { return lookups_; }
  void CountLookups(std::uint64_t count) const { lookups_ += count; }

 private:
  struct Stamp {
    std::uint64_t added = 0;  // PathMap::LastAddition
    std::uint64_t releases = ~std::uint64_t{0};
    bool operator==(const Stamp&) const = default;
  };
  struct OfOneKey {
    fabric::PortSet taken;
    std::uint64_t releases = 0;
    mutable std::vector<std::array<Stamp, 2>> none;  // by path and need
  };
  std::unordered_map<fabric::PortKey, OfOneKey> keys_;
  mutable std::uint64_t lookups_ = 0;
};

// Returns a free port that takes the path: `current` (0: none) if it does, else the most trusted
// one (verified, then predicted, then kReverify), the lowest port among equals. None if the map
// knows no such port. Ports with less doubt (0: none, as if `doubt_of` is empty) come first, among
// the kMostDoubted best ones. O(PathMap::kFewestIndexed), however many ports are known or taken.
inline constexpr std::size_t kMostDoubted = 256;
std::optional<fabric::PortEntry> ChoosePort(const fabric::PathMap& map, const fabric::PortKey& key,
                                            fabric::PathIndex path, const PortsInUse& in_use,
                                            PortNeed need, std::uint16_t current,
                                            const std::function<int(std::uint16_t)>& doubt_of = {});

}  // namespace espalier::controller
