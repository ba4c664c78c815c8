#include "controller/routing/exact/live_stages.h"

#include <algorithm>

#include "common/graph/edge_coloring.h"

namespace espalier::controller {
namespace {

using fabric::FoldedClos;

constexpr std::uint8_t kBlockSends = 1;
constexpr std::uint8_t kBlockReceives = 2;

}  // namespace

bool LiveStages::Build(std::span<const Commodity> commodities, bool is_ideal) {
  if (!view_.folded_clos()) return false;
  is_ideal_ = is_ideal;
  const FoldedClos& clos = *view_.folded_clos();
  parts_.resize(clos.parts);
  for (Part& part : parts_) {
    part.in_use = clos.parts == 1;
    part.commodities.clear();
  }
  for (std::uint32_t part = 0; part < clos.parts; ++part) {
    for (std::uint32_t tier = 0; tier < clos.tiers; ++tier) {
      if (!is_ideal_ && !view_.LinksAbove(part, tier).has_one_rate) return false;
    }
  }
  if (clos.parts > 1) {
    for (std::size_t i = 0; i < commodities.size(); ++i) {
      const std::uint32_t from = clos.blocks[view_.FoldedLeaf(commodities[i].source)].part;
      const std::uint32_t to = clos.blocks[view_.FoldedLeaf(commodities[i].destination)].part;
      if (from != to || commodities[i].source == commodities[i].destination) continue;
      parts_[from].in_use = true;
      parts_[from].commodities.push_back(static_cast<std::uint32_t>(i));
    }
  }
  if (!is_ideal_ && !view_.has_all_tier_links()) MarkBlocksInUse(commodities);
  for (std::uint32_t part = 0; part < clos.parts; ++part) {
    if (parts_[part].in_use && !BuildStages(part)) return false;
  }
  return true;
}

void LiveStages::MarkBlocksInUse(std::span<const Commodity> commodities) {
  const FoldedClos& clos = *view_.folded_clos();
  in_use_.assign(clos.blocks.size(), 0);
  for (const Commodity& commodity : commodities) {
    const std::uint32_t from = view_.FoldedLeaf(commodity.source);
    const std::uint32_t to = view_.FoldedLeaf(commodity.destination);
    const std::uint32_t common = clos.CommonBlock(from, to);
    if (common == FoldedClos::kNone) continue;
    for (std::uint32_t tier = 0; tier < clos.blocks[common].tier; ++tier) {
      in_use_[clos.Ancestor(from, tier)] |= kBlockSends;
      in_use_[clos.Ancestor(to, tier)] |= kBlockReceives;
    }
  }
}

bool LiveStages::BuildStages(std::uint32_t index) {
  const FoldedClos& clos = *view_.folded_clos();
  Part& part = parts_[index];
  part.leaf_numbers.clear();
  for (const std::uint32_t block : clos.BlocksOf(index)) {
    if (clos.blocks[block].tier > 0) break;
    part.leaf_numbers.push_back(block);
  }
  std::uint32_t height = 0;
  while (height + 1 < clos.tiers &&
         clos.Ancestor(part.leaf_numbers.front(), height + 1) != FoldedClos::kNone) {
    ++height;
  }
  if (height == 0) {  // a leaf alone: it has no flows
    part.in_use = false;
    return true;
  }
  part.stages.resize(height);
  part.tiers.assign(height, {});
  for (std::uint32_t tier = 0; tier < height; ++tier) {
    Stage& stage = part.stages[tier];
    graph::LaminarTier& entry = part.tiers[tier];
    stage.block_of.clear();
    for (const std::uint32_t leaf : part.leaf_numbers) {
      const std::uint32_t number = clos.blocks[clos.Ancestor(leaf, tier)].number;
      entry.blocks = std::max(entry.blocks, number + 1);
      if (tier > 0) stage.block_of.push_back(number);
    }
    entry.block_of = stage.block_of;
    entry.rate = std::max<std::int64_t>(view_.LinksAbove(index, tier).rate_bps, 1);
    if (!FindLiveTops(index, tier)) return false;
    entry.first_above = stage.first_above;
    for (std::size_t top = 0; top + 1 < stage.first_above.size(); ++top) {
      const std::uint32_t colors = stage.first_above[top + 1] - stage.first_above[top];
      if (colors == 0 || colors > graph::EdgeColoring::kMaxColors) return false;
    }
  }
  return true;
}

bool LiveStages::FindLiveTops(std::uint32_t index, std::uint32_t tier) {
  const FoldedClos& clos = *view_.folded_clos();
  Part& part = parts_[index];
  Stage& stage = part.stages[tier];
  const FoldedClos::Block& above = clos.blocks[clos.Ancestor(part.leaf_numbers.front(), tier + 1)];
  const std::uint32_t below = above.labels / above.width;
  const auto* const lower_labels = tier == 0 ? nullptr : &part.stages[tier - 1].labels;
  const bool has_all_lower = lower_labels == nullptr || lower_labels->empty();
  stage.labels.clear();
  stage.first_above.assign(1, 0);
  if (is_ideal_ || (has_all_lower && view_.LinksAbove(index, tier).all_live)) {
    for (std::uint32_t top = 1; top <= below; ++top) stage.first_above.push_back(top * above.width);
    return true;
  }
  // Of the first block in use; the others must agree. Links below dead tops do not matter.
  bool is_known = false;
  const auto take = [&](const FoldedClos::Block& block, bool sends) {
    std::size_t next = 0;
    const std::uint32_t lowers =
        has_all_lower ? below : static_cast<std::uint32_t>(lower_labels->size());
    for (std::uint32_t i = 0; i < lowers; ++i) {
      const std::uint32_t lower = has_all_lower ? i : (*lower_labels)[i];
      for (std::uint32_t place = 0; place < above.width; ++place) {
        const std::uint32_t label = lower * above.width + place;
        const std::uint32_t link = sends ? clos.UpLink(block, label) : clos.DownLink(block, label);
        const bool is_live = view_.capacities()[link] > 0;
        if (!is_known && is_live) stage.labels.push_back(label);
        if (is_known) {
          const bool expected = next < stage.labels.size() && stage.labels[next] == label;
          if (expected != is_live) return false;
          next += expected ? 1 : 0;
        }
      }
      if (!is_known) stage.first_above.push_back(static_cast<std::uint32_t>(stage.labels.size()));
    }
    is_known = true;
    return true;
  };
  for (const std::uint32_t i : clos.BlocksOf(index)) {
    const FoldedClos::Block& block = clos.blocks[i];
    if (block.tier != tier) continue;
    if ((in_use_[i] & kBlockSends) != 0 && !take(block, true)) return false;
    if ((in_use_[i] & kBlockReceives) != 0 && !take(block, false)) return false;
  }
  if (is_known) return !stage.labels.empty();
  // No flow gets here: any tops will do.
  const auto lowers = has_all_lower ? below : static_cast<std::uint32_t>(lower_labels->size());
  for (std::uint32_t top = 0; top < lowers; ++top) {
    stage.labels.push_back(top);
    stage.first_above.push_back(top + 1);
  }
  return true;
}

}  // namespace espalier::controller
