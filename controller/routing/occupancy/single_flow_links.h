#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "controller/routing/occupancy/subflow_table.h"

namespace espalier::controller {

// Of every link at a leaf of a 2-layer Clos that bears nothing or one whole flow: which, and the
// leaf at its other end. Where all links are such, this is all that a start, an end and a chain
// along two spines ask and change, in six bytes a link. (The two by which chains are followed are
// apart: 512 KB for 1,024 leaves and 128 spines, which a second-level cache holds.) A leaf's links
// of one direction are next to each other, by spine.
class SingleFlowLinks {
 public:
  static constexpr std::uint16_t kIdle = 0xFFFF;
  static constexpr std::uint16_t kNotTracked = 0xFFFE;  // what it bears is not told of here

  // All links idle. Off where leaves are too many for their numbers.
  void Reset(std::size_t leaves, std::size_t spines) {
    is_on_ = leaves < kNotTracked;
    leaves_ = leaves;
    spines_ = spines;
    peers_.assign(is_on_ ? 2 * leaves * spines : 0, kIdle);
    subflows_.assign(peers_.size(), SubflowId());
  }
  bool is_on() const { return is_on_; }

  // The first slot of the links that a leaf sends over, or receives over.
  std::size_t RowOf(std::size_t leaf, bool sends) const {
    return ((sends ? leaves_ : 0) + leaf) * spines_;
  }

  std::uint16_t PeerAt(std::size_t slot) const { return peers_[slot]; }
  // Of a slot whose peer is a leaf.
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
