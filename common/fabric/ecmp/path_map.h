#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/fabric/paths.h"

namespace espalier::fabric {

// The header fields that, together with the source port, decide which path a packet takes.
struct PortKey {
  NodeId source;       // NIC
  NodeId destination;  // NIC
  std::uint8_t protocol = 17;
  std::uint16_t destination_port = 4791;
  std::uint32_t destination_qpn = 0;  // 0 if the fabric does not hash it
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

// How certain the path of a port is.
//   kPredicted  computed by a hash model, not confirmed by a probe
//   kVerified   seen or confirmed by a probe
//   kReverify   known before the fabric changed: usable for flows that have the port and for flows
//               whose path is dead, but not for new flows until a probe confirms it
enum class PortTrust : std::uint8_t { kPredicted, kVerified, kReverify };

// How a port came to be known, in this fabric or (kReverify) before it changed.
//   kPredicted  no probe has seen it
//   kConfirmed  predicted, then seen by a probe
//   kSampled    probed before anything was known of it: unlike the others, it was not chosen for
//               its path, so such ports show how ports spread over paths
enum class PortOrigin : std::uint8_t { kPredicted, kConfirmed, kSampled };

struct PortEntry {
  std::uint16_t port = 0;
  PortTrust trust = PortTrust::kVerified;
  PortOrigin origin =
      trust == PortTrust::kPredicted ? PortOrigin::kPredicted : PortOrigin::kSampled;
  PathIndex path;
  bool operator==(const PortEntry&) const = default;
};

class PortIndex;

// The path map: which source port takes which path, as probes saw it or hash models predict it,
// for the keys in use. Source ports are those of RoCEv2, 0xC000-0xFFFF (16,384 ports).
//
// Thread safety: one thread. Memory: 8 bytes for each known port, 2 for each silent one, and a
// PortIndex for each key that needs one.
class PathMap {
 public:
  PathMap();
  ~PathMap();
  PathMap(PathMap&&) noexcept;
  PathMap& operator=(PathMap&&) noexcept;

  // Records that a probe saw this port take this path. Returns false if that contradicts an entry
  // of the current fabric; the caller counts a mismatch. An entry in kReverify is never
  // contradicted. In every case the map then holds the new path.
  bool Observe(const PortKey& key, std::uint16_t port, PathIndex path);
  // Records the prediction of a hash model of the current fabric. It never replaces a verified
  // entry, but does replace one in kReverify. The path then has a port.
  void Predict(const PortKey& key, std::uint16_t port, PathIndex path);
  // Records that no port takes these paths in the current fabric, by a model or by ports that were
  // probed; without effect on a path of which a port is known in it. O(ports + paths log paths).
  void PredictNone(const PortKey& key, std::vector<PathIndex> paths);
  // Records that probes of this port were not answered. Without effect if its path in the current
  // fabric is known.
  void NoteSilence(const PortKey& key, std::uint16_t port);
  // Removes all predictions for the key, as a mismatch shows that the model is wrong.
  void DropPredictions(const PortKey& key);
  // Removes the prediction of one port; a port that a probe has seen stays.
  void DropPrediction(const PortKey& key, std::uint16_t port);
  void Forget(const PortKey& key);

  // Marks all entries of the keys that `affected` accepts as kReverify, after a change of the
  // fabric. `affected` is kept and evaluated when a key is next used, so it must always return the
  // same for a key. O(1), except every kMaxMarks-th call, which is O(ports).
  using Affected = std::function<bool(const PortKey&)>;
  void MarkReverify(Affected affected);

  // Visits the map in pieces, between which it may change. Each key has a place below PlaceCount
  // and keeps it until that number changes. Calls visit(key, entries) for each key of a place, with
  // entries as in Ports().
  std::size_t PlaceCount() const { return keys_.bucket_count(); }
  template <typename Visit>
  void ForEachKeyAt(std::size_t place, Visit visit) const {
    for (auto at = keys_.begin(place); at != keys_.end(place); ++at) {
      visit(at->first, Marked(at->first, at->second).entries);
    }
  }

  std::optional<PortEntry> Find(const PortKey& key, std::uint16_t port) const;
  // All known ports of a key, ascending.
  const std::vector<PortEntry>& Ports(const PortKey& key) const;
  // The same by path and trust, for keys with so many known ports that it pays; else null. Valid
  // until the map changes. O(ports) for the first call after entries were removed or marked, else
  // O(1).
  static constexpr std::size_t kFewestIndexed = 256;
  const PortIndex* IndexOf(const PortKey& key) const;
  // The paths that no port takes by a prediction that still holds, ascending.
  std::span<const PathIndex> PathsWithoutPorts(const PortKey& key) const;
  // The ports whose probes were not answered in the current fabric, ascending: those of
  // NoteSilence without the observed ones.
  std::span<const std::uint16_t> SilentPorts(const PortKey& key) const;
  // Grows whenever a known port is removed, turns out to take another path, or may do so
  // (MarkReverify).
  std::uint64_t retractions() const { return retractions_; }
  // Changes whenever a port of this key gets known to take this path, or may be used by new flows
  // again; of a key without an index also if that is one of another path.
  std::uint64_t LastAddition(const PortKey& key, PathIndex path) const;
  // Complexity of Observe, Predict and Find: O(log ports); inserting a port that is not the highest
  // also moves the entries after it.
  std::size_t KeyCount() const { return keys_.size(); }
  std::size_t PortCount() const;

 private:
  static constexpr std::size_t kMaxMarks = 16;

  struct Known {
    std::vector<PortEntry> entries;        // sorted by port
    std::vector<PathIndex> without_ports;  // sorted
    std::vector<std::uint16_t> silent;     // sorted
    std::uint64_t added = 0;               // of additions_: the last one of this key
    std::uint64_t marks = 0;               // how many of all marks ever set are applied here
    std::unique_ptr<PortIndex> index;      // of the entries; null: made when it is asked for
  };

  std::uint64_t mark_count() const { return first_mark_ + marks_.size(); }
  // The same, with all marks applied.
  Known& Marked(const PortKey& key, Known& known) const;
  Known& KnownOf(const PortKey& key);
  void NoteAddition(Known& known, PathIndex path);

  mutable std::unordered_map<PortKey, Known> keys_;
  std::vector<Affected> marks_;   // not applied to all keys yet
  std::uint64_t first_mark_ = 0;  // the number of the first of these
  std::uint64_t retractions_ = 0;
  std::uint64_t additions_ = 0;
};

inline constexpr std::uint16_t kFirstRocePort = 0xC000;
inline constexpr std::size_t kRocePortCount = 16'384;

}  // namespace espalier::fabric
