#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "controller/routing/occupancy/subflow_table.h"

namespace espalier::controller {

// A compact table of the leaf links of a 2-tier Clos that carry at most one whole flow.
//
// Problem: a Kempe chain visits one link after the other in no order, and each visit to a full
// table of links costs a cache miss.
// Idea: for an idle link or one with a single whole flow, the subflow and the leaf at its other end
// (the peer) say everything: six bytes per link. While all links are such, arrivals, departures and
// Kempe chains need no other data. Peers are in an array of their own, as chains are followed by
// them alone: 512 KB for 1,024 leaves and 128 spines, which fits a second-level cache.
// Invariant: the slot of any other link is kNotTracked. LinkTable keeps slots and links consistent.
// Slots are by direction, then leaf, then spine. All calls are O(1) except Reset.
class SingleFlowLinks {
 public:
  static constexpr std::uint16_t kIdle = 0xFFFF;
  static constexpr std::uint16_t kNotTracked = 0xFFFE;  // carries something else

  // Makes all links idle. Turns the table off if there are too many leaves for 16-bit numbers.
  void Reset(std::size_t leaves, std::size_t spines) {
    is_on_ = leaves < kNotTracked;
    leaves_ = leaves;
    spines_ = spines;
    peers_.assign(is_on_ ? 2 * leaves * spines : 0, kIdle);
    subflows_.assign(peers_.size(), SubflowId());
  }
  bool is_on() const { return is_on_; }

  // The first slot of the links over which a leaf sends, or receives.
  std::size_t RowOf(std::size_t leaf, bool sends) const {
    return ((sends ? leaves_ : 0) + leaf) * spines_;
  }

  std::uint16_t PeerAt(std::size_t slot) const { return peers_[slot]; }
  // The peer of the slot must be a leaf.
  const SubflowId& SubflowAt(std::size_t slot) const { return subflows_[slot]; }
  void Set(std::size_t slot, std::uint32_t peer, SubflowId subflow) {
    peers_[slot] = static_cast<std::uint16_t>(peer);
    subflows_[slot] = subflow;
  }
  void SetIdle(std::size_t slot) { peers_[slot] = kIdle; }
  void SetNotTracked(std::size_t slot) { peers_[slot] = kNotTracked; }
  void Swap(std::size_t slot, std::size_t other) {
    std::swap(peers_[slot], peers_[other]);
    std::swap(subflows_[slot], subflows_[other]);
  }

 private:
  bool is_on_ = false;
  std::size_t leaves_ = 0;
  std::size_t spines_ = 0;
  std::vector<std::uint16_t> peers_;
  std::vector<SubflowId> subflows_;
};

}  // namespace espalier::controller
