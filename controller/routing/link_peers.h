#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::controller {

// Of every link at a leaf of a 2-layer Clos the leaf at the other end of the only way on it: all
// that a chain along two spines asks where links bear one way each, in two bytes a link. (512 KB
// for 1,024 leaves and 128 spines: a second-level cache holds it, but not the links and the ways.)
class LinkPeers {
 public:
  static constexpr std::uint16_t kIdle = 0xFFFF;     // it bears nothing
  static constexpr std::uint16_t kSeveral = 0xFFFE;  // it bears more than one way

  // All links idle. Off where leaves are too many for their numbers.
  void Reset(std::size_t leaves, std::size_t spines) {
    is_on_ = leaves < kSeveral;
    spines_ = spines;
    for (auto& peers : peers_) peers.assign(is_on_ ? leaves * spines : 0, kIdle);
  }
  bool is_on() const { return is_on_; }

  std::uint16_t At(std::size_t leaf, std::size_t spine, bool sends) const {
    return peers_[sends ? 1 : 0][leaf * spines_ + spine];
  }
  void Set(std::size_t leaf, std::size_t spine, bool sends, std::uint32_t peer) {
    if (is_on_) peers_[sends ? 1 : 0][leaf * spines_ + spine] = static_cast<std::uint16_t>(peer);
  }

 private:
  bool is_on_ = false;
  std::size_t spines_ = 0;
  std::vector<std::uint16_t> peers_[2];  // of links that leaves receive over, and send over
};

}  // namespace espalier::controller
