#include "controller/routing/bounds/tier_loads.h"

#include <algorithm>
#include <numeric>

#include "controller/routing/bounds/load_bounds.h"
#include "controller/routing/model/label_search.h"

namespace espalier::controller {
namespace {

using fabric::FoldedClos;

// The usable links over which all that a block sends, or receives, must pass.
class BlockCut {
 public:
  BlockCut(const FabricView& view, std::span<const std::int64_t> base_loads)
      : view_(view), base_loads_(base_loads) {}

  // Takes the block's links upwards, or, if `narrowest`, for each of its tops those below it where
  // they are fewer.
  Load BoundOf(const FoldedClos::Block& block, bool sends, bool narrowest, std::int64_t units,
               std::int64_t portion) {
    const FoldedClos& clos = *view_.folded_clos();
    capacities_.clear();
    base_.clear();
    const std::uint32_t width = clos.blocks[block.parent].width;
    for (std::uint32_t top = 0; top < block.labels; ++top) {
      above_.clear();
      for (std::uint32_t label = top * width; label < (top + 1) * width; ++label) {
        above_.push_back(sends ? clos.UpLink(block, label) : clos.DownLink(block, label));
      }
      const auto& links = sends ? clos.up : clos.down;
      const auto below = std::span(links).subspan(
          block.first_link + std::size_t{top} * block.children, block.children);
      Append(narrowest && CapacityOf(below) < CapacityOf(above_) ? below : above_);
    }
    return ComputeCutBound(view_, units, portion, capacities_, base_);
  }

 private:
  std::int64_t CapacityOf(std::span<const std::uint32_t> links) const {
    std::int64_t sum = 0;
    for (const std::uint32_t link : links) sum += view_.capacities()[link];
    return sum;
  }
  void Append(std::span<const std::uint32_t> links) {
    for (const std::uint32_t link : links) {
      if (view_.capacities()[link] == 0) continue;
      capacities_.push_back(view_.capacities()[link]);
      if (!base_loads_.empty()) base_.push_back(base_loads_[link]);
    }
  }

  const FabricView& view_;
  std::span<const std::int64_t> base_loads_;
  std::vector<std::uint32_t> above_;
  std::vector<std::int64_t> capacities_;
  std::vector<std::int64_t> base_;
};

}  // namespace

TierBounds ComputeTierBounds(const FabricView& view, std::span<const Commodity> commodities,
                             std::span<const std::int64_t> base_loads, std::int64_t portion) {
  const FoldedClos& clos = *view.folded_clos();
  std::vector<std::int64_t> sent(clos.blocks.size());
  std::vector<std::int64_t> received(clos.blocks.size());
  std::int64_t shares = 0;
  LabelSearch search(view);
  for (const Commodity& commodity : commodities) {
    if (commodity.source == commodity.destination) continue;
    if (!search.IsRoutable(commodity.source, commodity.destination)) continue;
    shares = std::gcd(shares, kLoadUnit / commodity.subflows);
    const std::uint32_t from = view.FoldedLeaf(commodity.source);
    const std::uint32_t to = view.FoldedLeaf(commodity.destination);
    for (std::uint32_t tier = 0; clos.Ancestor(from, tier) != clos.Ancestor(to, tier); ++tier) {
      sent[clos.Ancestor(from, tier)] += kLoadUnit;
      received[clos.Ancestor(to, tier)] += kLoadUnit;
    }
  }
  if (portion == 0) portion = shares;
  TierBounds bounds{.tiers = std::vector<Load>(clos.tiers - 1), .fabric = {}};
  BlockCut cut(view, base_loads);
  for (std::size_t i = 0; i < clos.blocks.size(); ++i) {
    const FoldedClos::Block& block = clos.blocks[i];
    for (const bool sends : {true, false}) {
      const std::int64_t units = (sends ? sent : received)[i];
      if (units == 0) continue;
      Load& of_tier = bounds.tiers[block.tier];
      of_tier = std::max(of_tier, cut.BoundOf(block, sends, false, units, portion));
      // With all links up, the leaves' own bounds say as much.
      if (block.tier == 0 || view.has_all_tier_links()) continue;
      bounds.fabric = std::max(bounds.fabric, cut.BoundOf(block, sends, true, units, portion));
    }
  }
  for (const Load& of_tier : bounds.tiers) bounds.fabric = std::max(bounds.fabric, of_tier);
  return bounds;
}

std::vector<Load> ComputeTierLoads(const FabricView& view, std::span<const Commodity> commodities,
                                   const Assignment& assignment) {
  const FoldedClos& clos = *view.folded_clos();
  const std::vector<std::int64_t> units = ComputeLoads(view, commodities, assignment);
  std::vector<Load> loads(clos.tiers - 1);
  for (const FoldedClos::Block& block : clos.blocks) {
    if (block.tier == 0) continue;
    Load& most = loads[block.tier - 1];
    for (std::size_t i = 0; i < std::size_t{block.labels} * block.children; ++i) {
      for (const auto* links : {&clos.up, &clos.down}) {
        const std::uint32_t link = (*links)[block.first_link + i];
        if (units[link] == 0) continue;
        most = std::max(most, MakeLoad(view, units[link], view.capacities()[link]));
      }
    }
  }
  return loads;
}

}  // namespace espalier::controller
