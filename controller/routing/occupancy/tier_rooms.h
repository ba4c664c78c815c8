#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/fabric/load.h"

namespace espalier::controller {

// Keeps which links of a folded Clos of more than two tiers have room for one more subflow.
//
// Problem: the search for a path asks for the tops that two blocks both reach over links with room,
// for many pairs of blocks, and each link is far away in memory.
// Idea: one word for each top of a block and direction. Its bit w is set if the link has room that
// joins the block's top `label` with the top label * width + w of its parent. A path is then found
// by one conjunction a tier. The words of 8,192 hosts (k = 32) take 16 KB.
//
// All bits are for one share; LinkTable keeps them. Off if a switch has more than 64 links upwards,
// or the fabric is no such Clos. All calls are O(1) except Reset and SetShare.
class TierRooms {
 public:
  // Nothing has room. The view may have changed.
  void Reset(const FabricView& view);
  bool is_on() const { return !rows_.empty(); }

  // Bit w: whether there is room between the block's top `label` and the w-th top above it, to send
  // upwards, or to receive from it. The block has a parent.
  std::uint64_t At(std::uint32_t block, std::uint32_t label, bool sends) const {
    return rows_[first_row_[block] + 2 * std::size_t{label} + (sends ? 0 : 1)];
  }
  // Takes from the table of links whether this one has room now.
  template <typename Table>
  void Note(const Table& table, std::uint32_t link) {
    if (!is_on() || places_[link] == kNoPlace) return;
    const std::uint64_t bit = std::uint64_t{1} << (places_[link] % 64);
    std::uint64_t& row = rows_[places_[link] / 64];
    row = table.HasRoom(link, share_) ? row | bit : row & ~bit;
  }
  // Which share the bits are for. O(links) if it is another one.
  template <typename Table>
  void SetShare(const Table& table, std::int64_t share) {
    if (share_ == share) return;
    share_ = share;
    for (std::uint32_t link = 0; link < places_.size(); ++link) Note(table, link);
  }

 private:
  static constexpr std::uint32_t kNoPlace = 0xFFFF'FFFF;

  std::int64_t share_ = kLoadUnit;
  std::vector<std::uint64_t> rows_;
  std::vector<std::uint32_t> first_row_;  // by block
  std::vector<std::uint32_t> places_;     // by link: its row * 64 + its bit
};

}  // namespace espalier::controller
