#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/fabric/ecmp/path_map.h"

namespace espalier::fabric {

// The RoCE ports of one key by path and trust, a bit for each, for keys of which many ports are
// known: the lowest free port of a path is then found by words of 64 ports.
// Complexity: O(1) a port. Memory: 2 KiB for each path and trust that has had a port.
// Thread safety: one thread.
class PortIndex {
 public:
  using Words = std::array<std::uint64_t, kRocePortCount / 64>;

  // `added`: the number of the latest addition that the index begins with.
  explicit PortIndex(std::uint64_t added) : first_added_(added) {}

  // The port must not be in the index; one below kFirstRocePort is left out.
  void Add(const PortEntry& entry) { Flip(entry); }
  // Notes that this addition made a port of the path known.
  void NoteAddition(PathIndex path, std::uint64_t number) {
    if (path.Index() >= added_.size()) added_.resize(path.Index() + 1);
    added_[path.Index()] = number;
  }
  // The number of the last addition that may have been one of this path.
  std::uint64_t LastAddition(PathIndex path) const {
    return path.Index() < added_.size() ? std::max(first_added_, added_[path.Index()])
                                        : first_added_;
  }
  // The entry must be as it was added.
  void Remove(const PortEntry& entry) { Flip(entry); }
  // Port kFirstRocePort + 64 n + b is bit b of word n; null: there is none.
  const Words* Find(PathIndex path, PortTrust trust) const {
    const std::size_t at = PlaceOf(path, trust);
    return at < words_.size() && words_[at] ? &*words_[at] : nullptr;
  }

 private:
  static constexpr std::size_t kTrusts = 3;
  static std::size_t PlaceOf(PathIndex path, PortTrust trust) {
    return kTrusts * path.Index() + static_cast<std::size_t>(trust);
  }
  void Flip(const PortEntry& entry) {
    if (entry.port < kFirstRocePort || entry.path.value() < 0) return;
    const std::size_t at = PlaceOf(entry.path, entry.trust);
    if (at >= words_.size()) words_.resize(at + 1);
    if (!words_[at]) words_[at] = std::make_unique<Words>();
    const std::size_t bit = entry.port - std::size_t{kFirstRocePort};
    (*words_[at])[bit / 64] ^= std::uint64_t{1} << bit % 64;
  }

  std::vector<std::unique_ptr<Words>> words_;  // by PlaceOf
  std::uint64_t first_added_;
  std::vector<std::uint64_t> added_;  // by path
};

}  // namespace espalier::fabric
