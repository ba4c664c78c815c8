#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"

namespace espalier::controller {

// A directed link of a 2-tier Clos, named by its leaf, its spine, and whether the leaf sends or
// receives over it.
struct LeafLink {
  static constexpr std::uint32_t kNoLeaf = 0xFFFF'FFFF;

  std::uint32_t leaf = kNoLeaf;
  std::uint32_t spine = 0;
  bool sends = false;

  // The directed link, or kNoLink.
  std::uint32_t LinkIn(const Clos& clos) const {
    return (sends ? clos.up : clos.down)[std::size_t{leaf} * clos.spines + spine];
  }
  // Its word in masks like Clos::up_live, and its bit in that word.
  std::size_t WordIn(const Clos& clos) const { return std::size_t{leaf} * clos.words + spine / 64; }
  std::uint64_t Bit() const { return std::uint64_t{1} << (spine % 64); }
  // Whether the link exists and takes new flows.
  bool IsLiveIn(const Clos& clos) const {
    return ((sends ? clos.up_live : clos.down_live)[WordIn(clos)] & Bit()) != 0;
  }
};

// Masks of the spines to which a leaf's links are idle, that is, carry nothing, in a 2-tier Clos.
// If links take one subflow each, an arrival needs only the spines that are idle at both its
// leaves: 64 of them in one word. Searches are O(spines / 64). The view must outlive it, and must
// be a Clos. Thread safety: one thread.
class IdleSpines {
 public:
  explicit IdleSpines(const FabricView& view) : view_(view) {}

  // Makes all links idle.
  void Clear() {
    up_ = view_.clos()->up_known;
    down_ = view_.clos()->down_known;
  }
  void Set(const LeafLink& end, bool idle) {
    std::uint64_t& word = (end.sends ? up_ : down_)[end.WordIn(*view_.clos())];
    word = idle ? word | end.Bit() : word & ~end.Bit();
  }
  // The words of a leaf, including links that are not usable.
  std::uint64_t* WordsOf(std::uint32_t leaf, bool sends) {
    return &(sends ? up_ : down_)[std::size_t{leaf} * view_.clos()->words];
  }

  // The spines of this word to which the leaf's link takes new flows and is idle.
  std::uint64_t At(std::uint32_t leaf, bool sends, std::uint32_t word) const {
    const Clos& clos = *view_.clos();
    const std::size_t at = std::size_t{leaf} * clos.words + word;
    return sends ? up_[at] & clos.up_live[at] : down_[at] & clos.down_live[at];
  }
  // The first spine that is idle at both ends, as a route, or kNoPath.
  std::int32_t RouteBetween(std::uint32_t source, std::uint32_t destination) const {
    for (std::uint32_t word = 0; word < view_.clos()->words; ++word) {
      const std::uint64_t idle = At(source, true, word) & At(destination, false, word);
      if (idle != 0) return static_cast<std::int32_t>(64 * word) + std::countr_zero(idle);
    }
    return kNoPath;
  }
  // The same between the leaf of an end and another leaf, in the direction of the end.
  std::int32_t RouteFrom(const LeafLink& end, std::uint32_t peer) const {
    return end.sends ? RouteBetween(end.leaf, peer) : RouteBetween(peer, end.leaf);
  }

 private:
  const FabricView& view_;
  std::vector<std::uint64_t> up_;
  std::vector<std::uint64_t> down_;
};

}  // namespace espalier::controller
