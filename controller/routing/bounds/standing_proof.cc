#include "controller/routing/bounds/standing_proof.h"

#include "controller/routing/fabric/live_bundles.h"

namespace espalier::controller {

Proof StandingProof(const FabricView& view) {
  if (view.bundled_clos() && FindLiveBundles(*view.bundled_clos(), view.capacities())) {
    return Proof::kBundles;
  }
  if (!view.folded_clos() || !view.has_all_tier_links()) return Proof::kNone;
  const fabric::FoldedClos& clos = *view.folded_clos();
  for (std::uint32_t part = 0; part < clos.parts; ++part) {
    for (std::uint32_t tier = 0; tier < clos.tiers; ++tier) {
      if (!view.LinksAbove(part, tier).has_one_rate) return Proof::kNone;
    }
  }
  if (clos.tiers == 2) return Proof::kTwoTiers;
  // Above every block, links must carry what those below it do, with whole multiples of their rate.
  for (const fabric::FoldedClos::Block& block : clos.blocks) {
    if (block.tier == 0 || block.parent == fabric::FoldedClos::kNone) continue;
    const std::int64_t below = view.LinksAbove(block.part, block.tier - 1).rate_bps;
    const std::int64_t above = view.LinksAbove(block.part, block.tier).rate_bps;
    const std::int64_t links = clos.blocks[block.parent].width;
    const bool is_wide = above % below == 0 && links * (above / below) >= block.children;
    if (!is_wide) return Proof::kNone;
  }
  return Proof::kNotNarrower;
}

}  // namespace espalier::controller
