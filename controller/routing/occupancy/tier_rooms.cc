#include "controller/routing/occupancy/tier_rooms.h"

#include <algorithm>

namespace espalier::controller {

void TierRooms::Reset(const FabricView& view) {
  rows_.clear();
  if (!view.folded_clos() || view.clos()) return;
  const fabric::FoldedClos& clos = *view.folded_clos();
  const bool fits = clos.tiers > 2 && std::ranges::all_of(clos.blocks, [](const auto& block) {
                      return block.width <= 64;
                    });
  if (!fits) return;
  std::size_t rows = 0;
  first_row_.assign(clos.blocks.size(), 0);
  places_.assign(view.capacities().size(), kNoPlace);
  for (std::size_t i = 0; i < clos.blocks.size(); ++i) {
    const fabric::FoldedClos::Block& block = clos.blocks[i];
    if (block.parent == fabric::FoldedClos::kNone) continue;
    first_row_[i] = static_cast<std::uint32_t>(rows);
    const std::uint32_t width = clos.blocks[block.parent].width;
    for (std::uint32_t top = 0; top < block.labels * width; ++top) {
      const std::size_t row = rows + 2 * std::size_t{top / width};
      places_[clos.UpLink(block, top)] = static_cast<std::uint32_t>(64 * row + top % width);
      places_[clos.DownLink(block, top)] = static_cast<std::uint32_t>(64 * (row + 1) + top % width);
    }
    rows += 2 * std::size_t{block.labels};
  }
  rows_.assign(rows, 0);
}

}  // namespace espalier::controller
