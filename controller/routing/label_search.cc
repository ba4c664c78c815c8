#include "controller/routing/label_search.h"

#include <algorithm>

namespace espalier::controller {
namespace {

constexpr std::uint64_t kMaxListedPaths = 1'000'000;

}  // namespace

bool CanListPaths(const FabricView& view, std::span<const Commodity> commodities) {
  if (view.clos() || !view.folded_clos()) return true;
  const fabric::FoldedClos& clos = *view.folded_clos();
  std::uint64_t paths = 0;
  for (const Commodity& commodity : commodities) {
    const std::uint32_t common =
        clos.CommonBlock(view.FoldedLeaf(commodity.source), view.FoldedLeaf(commodity.destination));
    if (common != fabric::FoldedClos::kNone) paths += clos.blocks[common].labels;
  }
  return paths <= kMaxListedPaths;
}

std::int32_t LabelSearch::LeastLoaded(std::span<const std::int64_t> loads, std::uint32_t source,
                                      std::uint32_t destination) {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  loads_ = loads;
  from_ = view_.FoldedLeaf(source);
  to_ = view_.FoldedLeaf(destination);
  best_ = kNoPath;
  const std::uint32_t common = clos.CommonBlock(from_, to_);
  if (common == fabric::FoldedClos::kNone) return kNoPath;
  top_ = clos.blocks[common].tier;
  Descend(1, 0, 0, {});
  return best_;
}

void LabelSearch::Descend(std::uint32_t tier, std::uint32_t label, std::int32_t path,
                          LoadRatio busiest) {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  const auto capacities = view_.capacities();
  const auto& block = clos.blocks[clos.Ancestor(from_, tier)];
  const auto& sender = clos.blocks[clos.Ancestor(from_, tier - 1)];
  const auto& receiver = clos.blocks[clos.Ancestor(to_, tier - 1)];
  const std::uint32_t first = label * block.width;
  for (std::uint32_t rank = 0; rank < block.width; ++rank) {
    if (best_ != kNoPath && !(busiest < least_)) return;
    const std::uint32_t here = first + clos.label_at[block.first_top + first + rank];
    const std::uint32_t up = clos.UpLink(sender, here);
    const std::uint32_t down = clos.DownLink(receiver, here);
    if (capacities[up] == 0 || capacities[down] == 0) continue;
    LoadRatio worst = busiest;
    if (!loads_.empty()) {
      worst = std::max({worst, LoadRatio{loads_[up], capacities[up]},
                        LoadRatio{loads_[down], capacities[down]}});
    }
    if (best_ != kNoPath && !(worst < least_)) continue;
    const std::int32_t next =
        path * static_cast<std::int32_t>(block.width) + static_cast<std::int32_t>(rank);
    if (tier < top_) {
      Descend(tier + 1, here, next, worst);
      continue;
    }
    best_ = next;
    least_ = worst;
  }
}

}  // namespace espalier::controller
