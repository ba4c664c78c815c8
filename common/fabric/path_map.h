#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/ip_address.h"
#include "common/fabric/paths.h"

namespace espalier::fabric {

// What decides, together with the source port, which path a packet takes.
struct PortKey {
  NodeId source;       // NIC
  NodeId destination;  // NIC
  std::uint8_t protocol = 17;
  std::uint16_t destination_port = 4791;
  std::uint32_t destination_qpn = 0;  // 0 where the fabric does not hash it
  auto operator<=>(const PortKey&) const = default;
};

}  // namespace espalier::fabric

template <>
struct std::hash<espalier::fabric::PortKey> {
  std::size_t operator()(const espalier::fabric::PortKey& key) const noexcept {
    const auto ends = static_cast<std::uint64_t>(key.source.value()) << 32 |
                      static_cast<std::uint32_t>(key.destination.value());
    const auto rest = static_cast<std::uint64_t>(key.destination_qpn) << 24 |
                      static_cast<std::uint64_t>(key.destination_port) << 8 | key.protocol;
    constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;  // 2^64 / golden ratio
    const std::uint64_t mixed = (ends * kOdd ^ rest) * kOdd;
    return static_cast<std::size_t>(mixed ^ mixed >> 32);
  }
};

namespace espalier::fabric {

// How sure the map is of one port.
//   kPredicted  computed by a hash model, not yet seen
//   kVerified   seen by a probe (or confirmed by one)
//   kReverify   was known, but the fabric has changed since: usable for the flows that hold it
//               and for flows whose path is dead, not for new flows until a probe confirms it
enum class PortTrust : std::uint8_t { kPredicted, kVerified, kReverify };

struct PortEntry {
  std::uint16_t port = 0;
  PortTrust trust = PortTrust::kVerified;
  // By a probe, in this fabric or (kReverify) an earlier one; else there is only a model's word.
  bool was_seen = trust != PortTrust::kPredicted;
  PathIndex path;
  bool operator==(const PortEntry&) const = default;
};

// Which source port takes which path: what was learned or computed, for the keys that anyone
// asked about. Source ports are those of RoCEv2: 0xC000-0xFFFF (16,384 of them).
//
// Thread safety: one thread. Memory: 8 bytes a known port.
class PathMap {
 public:
  // A probe saw this port take this path. False if that contradicts what was known to hold (the
  // caller counts a mismatch; an entry in kReverify was in doubt and contradicts nothing); the
  // map then holds the new truth.
  bool Observe(const PortKey& key, std::uint16_t port, PathIndex path);
  // A hash model of the present fabric says so. Never overrides what was seen in it; an entry in
  // kReverify was seen in an earlier one and gives way.
  void Predict(const PortKey& key, std::uint16_t port, PathIndex path);
  // A mismatch shows that a model is wrong: forgets all that is predicted for the key.
  void DropPredictions(const PortKey& key);
  // Forgets one port that was never seen; what was seen stays.
  void DropPrediction(const PortKey& key, std::uint16_t port);
  void Forget(const PortKey& key);

  // The fabric changed: all entries of keys that `affected` accepts become kReverify. That is found
  // out when a key is next asked for: `affected` is kept, and always has the same answer for a key.
  // O(1), but for each kMaxMarks-th call, which is O(ports).
  using Affected = std::function<bool(const PortKey&)>;
  void MarkReverify(Affected affected);

  // Each key has a place below PlaceCount, and keeps it until that changes: so all can be looked at
  // in pieces, between which the map may change. Calls visit(key, entries) for each key of a place;
  // entries are as Ports() has them.
  std::size_t PlaceCount() const { return keys_.bucket_count(); }
  template <typename Visit>
  void ForEachKeyAt(std::size_t place, Visit visit) const {
    for (auto at = keys_.begin(place); at != keys_.end(place); ++at) {
      visit(at->first, Marked(at->first, at->second));
    }
  }

  std::optional<PortEntry> Find(const PortKey& key, std::uint16_t port) const;
  // All known ports of a key, ascending.
  const std::vector<PortEntry>& Ports(const PortKey& key) const;
  // Grows whenever a port that was known is forgotten, or is known to lead elsewhere.
  std::uint64_t retractions() const { return retractions_; }
  // Complexity of Observe, Predict and Find: O(log ports), and a move of the entries behind where a
  // port is new and not the highest.
  std::size_t KeyCount() const { return keys_.size(); }
  std::size_t PortCount() const;

 private:
  static constexpr std::size_t kMaxMarks = 16;

  struct Known {
    std::vector<PortEntry> entries;  // sorted by port
    std::uint64_t marks = 0;         // of all that ever were, those that have been made here
  };

  std::uint64_t mark_count() const { return first_mark_ + marks_.size(); }
  // The entries, with all marks made.
  std::vector<PortEntry>& Marked(const PortKey& key, Known& known) const;
  std::vector<PortEntry>& EntriesOf(const PortKey& key);

  mutable std::unordered_map<PortKey, Known> keys_;
  std::vector<Affected> marks_;   // not made at all keys yet
  std::uint64_t first_mark_ = 0;  // the number of the first of these
  std::uint64_t retractions_ = 0;
};

inline constexpr std::uint16_t kFirstRocePort = 0xC000;
inline constexpr std::size_t kRocePortCount = 16'384;

}  // namespace espalier::fabric
