#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"

namespace espalier::controller {

// A link of a 2-layer Clos, as the end of a leaf's at a spine: what the leaf sends through that
// spine, or what it receives.
struct LeafLink {
  static constexpr std::uint32_t kNoLeaf = 0xFFFF'FFFF;

  std::uint32_t leaf = kNoLeaf;
  std::uint32_t spine = 0;
  bool sends = false;

  // The directed link, or kNoLink.
  std::uint32_t LinkIn(const Clos& clos) const {
    return (sends ? clos.up : clos.down)[std::size_t{leaf} * clos.spines + spine];
  }
  // The word of its bit in masks like Clos::up_live, and the bit.
  std::size_t WordIn(const Clos& clos) const { return std::size_t{leaf} * clos.words + spine / 64; }
  std::uint64_t Bit() const { return std::uint64_t{1} << (spine % 64); }
  // There is such a link, and it takes new flows.
  bool IsLiveIn(const Clos& clos) const {
    return ((sends ? clos.up_live : clos.down_live)[WordIn(clos)] & Bit()) != 0;
  }
};

// To which spines of a 2-layer Clos the links of a leaf bear nothing, as masks: where links are to
// take one way each, the spines that are idle at both leaves of a way are all that a start has to
// know, 64 of them in one word. What is asked is O(spines / 64). The view must outlive it, and be
// a Clos when it is asked. Thread safety: one thread.
class IdleSpines {
 public:
  explicit IdleSpines(const FabricView& view) : view_(view) {}

  // All links bear nothing.
  void Clear() {
    up_ = view_.clos()->up_known;
    down_ = view_.clos()->down_known;
  }
  void Set(const LeafLink& end, bool idle) {
    std::uint64_t& word = (end.sends ? up_ : down_)[end.WordIn(*view_.clos())];
    word = idle ? word | end.Bit() : word & ~end.Bit();
  }
  // The words of a leaf, whether the links are usable or not.
  std::uint64_t* WordsOf(std::uint32_t leaf, bool sends) {
    return &(sends ? up_ : down_)[std::size_t{leaf} * view_.clos()->words];
  }

  // The spines of a word to which the leaf's link takes new flows and bears nothing.
  std::uint64_t At(std::uint32_t leaf, bool sends, std::uint32_t word) const {
    const Clos& clos = *view_.clos();
    const std::size_t at = std::size_t{leaf} * clos.words + word;
    return sends ? up_[at] & clos.up_live[at] : down_[at] & clos.down_live[at];
  }
  // The first that is idle at both ends, as a route; kNoPath.
  std::int32_t RouteBetween(std::uint32_t source, std::uint32_t destination) const {
    for (std::uint32_t word = 0; word < view_.clos()->words; ++word) {
      const std::uint64_t idle = At(source, true, word) & At(destination, false, word);
      if (idle != 0) return static_cast<std::int32_t>(64 * word) + std::countr_zero(idle);
    }
    return kNoPath;
  }
  // Between the leaf of an end and another, in the direction of the end.
  std::int32_t RouteFrom(const LeafLink& end, std::uint32_t peer) const {
    return end.sends ? RouteBetween(end.leaf, peer) : RouteBetween(peer, end.leaf);
  }

 private:
  const FabricView& view_;
  std::vector<std::uint64_t> up_;
  std::vector<std::uint64_t> down_;
};

}  // namespace espalier::controller
