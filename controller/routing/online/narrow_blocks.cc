#include "controller/routing/online/narrow_blocks.h"

#include <algorithm>
#include <span>

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

}  // namespace

NarrowBlocks::NarrowBlocks(const FabricView& view) : view_(view) {
  if (view.bundled_clos() && view.bundled_clos()->has_uplinks) AddGroups(*view.bundled_clos());
  const auto& clos = view.folded_clos();
  if (!clos) return;
  first_.assign(clos->blocks.size(), kNone);
  for (std::size_t i = 0; i < clos->blocks.size(); ++i) {
    const auto& block = clos->blocks[i];
    if (block.tier == 0 || block.parent == fabric::FoldedClos::kNone) continue;
    const auto& parent = clos->blocks[block.parent];
    if (parent.width >= block.children) continue;
    first_[i] = static_cast<std::uint32_t>(sides_.size());
    Side& sends = sides_.emplace_back();
    for (std::uint32_t label = 0; label < parent.labels; ++label) {
      sends.links.push_back(clos->UpLink(block, label));
    }
    Side& receives = sides_.emplace_back();
    for (std::uint32_t label = 0; label < parent.labels; ++label) {
      receives.links.push_back(clos->DownLink(block, label));
    }
  }
  HandleLinkChange();
}

void NarrowBlocks::AddGroups(const BundledClos& clos) {
  const std::size_t bundle = std::size_t{clos.spines} * clos.members;
  for (const BundledClos::Group& group : clos.groups) {
    first_.push_back(static_cast<std::uint32_t>(sides_.size()));
    const auto up =
        std::span(clos.leaf_links).subspan(group.first_leaf * bundle, group.leaves.size() * bundle);
    sides_.emplace_back().links.assign(up.begin(), up.end());
    Side& receives = sides_.emplace_back();
    for (const std::uint32_t link : up) receives.links.push_back(link ^ 1U);
  }
  HandleLinkChange();
}

void NarrowBlocks::HandleLinkChange() {
  for (Side& side : sides_) {
    side.capacity_bps = 0;
    for (const std::uint32_t link : side.links) side.capacity_bps += view_.capacities()[link];
  }
}

bool NarrowBlocks::Count(std::uint32_t source, std::uint32_t destination, std::int64_t units,
                         std::int64_t grain) {
  if (view_.bundled_clos()) {
    const std::uint32_t from = view_.bundled_clos()->group_of[source];
    const std::uint32_t to = view_.bundled_clos()->group_of[destination];
    if (from == to) return false;
    const bool is_sending = CountSide(first_[from], units, grain);
    return CountSide(first_[to] + 1, units, grain) || is_sending;
  }
  const fabric::FoldedClos& clos = *view_.folded_clos();
  const std::uint32_t common = clos.CommonBlock(source, destination);
  if (common == fabric::FoldedClos::kNone) return false;
  const std::uint32_t tier = clos.blocks[common].tier;
  const bool sends = CountAt(source, tier, true, units, grain);
  const bool receives = CountAt(destination, tier, false, units, grain);
  return sends || receives;
}

bool NarrowBlocks::CountAt(std::uint32_t leaf, std::uint32_t common_tier, bool sends,
                           std::int64_t units, std::int64_t grain) {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  bool has_changed = false;
  for (std::uint32_t tier = 1; tier < common_tier; ++tier) {
    const std::uint32_t first = first_[clos.Ancestor(leaf, tier)];
    if (first == kNone) continue;
    has_changed = CountSide(first + (sends ? 0 : 1), units, grain) || has_changed;
  }
  return has_changed;
}

bool NarrowBlocks::CountSide(std::size_t index, std::int64_t units, std::int64_t grain) {
  Side& side = sides_[index];
  side.units += units;
  return grain > 0 && ShareOf(side, grain) != side.share;
}

std::int64_t NarrowBlocks::ShareOf(const Side& side, std::int64_t grain) const {
  if (side.capacity_bps == 0) return 0;
  const Wide room = Wide{side.capacity_bps} * grain;
  const Wide units = Wide{side.units} * view_.unit_bps();
  return static_cast<std::int64_t>((units + room - 1) / room) * grain;
}

std::int64_t NarrowBlocks::EvenShare(std::int64_t grain) {
  std::int64_t highest = 0;
  for (Side& side : sides_) {
    side.share = ShareOf(side, grain);
    highest = std::max(highest, side.share);
  }
  return highest;
}

}  // namespace espalier::controller
