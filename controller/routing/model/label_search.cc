#include "controller/routing/model/label_search.h"

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
  const auto any = [](std::int32_t) { return true; };
  if (loads.empty()) {
    return LeastLoaded(
        source, destination, [](std::uint32_t) { return std::int64_t{0}; }, any);
  }
  return LeastLoaded(
      source, destination, [&](std::uint32_t link) { return loads[link]; }, any);
}

}  // namespace espalier::controller
