#pragma once

#include <cstdint>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"

namespace espalier::controller {

// Counts what enters and leaves the blocks of a folded Clos that are narrower upwards, as pods with
// fewer links to the cores than to their leaves. The even share of such a block's links can be
// higher than that of every leaf, and no assignment puts less on one of them. In a BundledClos
// whose NICs choose their leaf, the groups of NICs are the blocks.
//
// The view must outlive it. Complexity: Count is O(tiers), EvenShare O(blocks). Thread safety: one
// thread.
class NarrowBlocks {
 public:
  explicit NarrowBlocks(const FabricView& view);

  bool empty() const { return sides_.empty(); }
  // Adds units of 1 / kLoadUnit of a flow that go from one leaf to another. Returns whether an even
  // share has changed since EvenShare, which was given the same `grain`.
  bool Count(std::uint32_t source, std::uint32_t destination, std::int64_t units,
             std::int64_t grain);
  // The highest even share of all blocks, for a link of the view's unit of capacity, rounded up to
  // whole grains (of units, greater than 0).
  std::int64_t EvenShare(std::int64_t grain);
  // The capacities of links have changed.
  void HandleLinkChange();

 private:
  // The links over which a block sends, or receives.
  struct Side {
    std::vector<std::uint32_t> links;
    std::int64_t capacity_bps = 0;
    std::int64_t units = 0;
    std::int64_t share = 0;  // as of the last EvenShare
  };
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  void AddGroups(const BundledClos& clos);
  std::int64_t ShareOf(const Side& side, std::int64_t grain) const;
  bool CountSide(std::size_t side, std::int64_t units, std::int64_t grain);
  bool CountAt(std::uint32_t leaf, std::uint32_t common_tier, bool sends, std::int64_t units,
               std::int64_t grain);

  const FabricView& view_;
  std::vector<Side> sides_;  // of narrow blocks: sending, then receiving, block by block
  // By block, or by group: its sides; kNone: it is not narrow.
  std::vector<std::uint32_t> first_;
};

}  // namespace espalier::controller
