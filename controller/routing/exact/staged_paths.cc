#include "controller/routing/exact/staged_paths.h"

#include <algorithm>
#include <limits>

namespace espalier::controller {

using fabric::FoldedClos;

bool StagedPaths::Assign(std::span<const Commodity> commodities, Assignment& assignment) {
  if (!AssignParts(commodities, false, assignment)) return false;
  const bool is_exact = assignment.max_load == assignment.lower_bound;
  if (!is_exact) assignment.proof = Proof::kNone;
  if (is_exact && assignment.proof == Proof::kNone) assignment.proof = Proof::kBoundMet;
  return true;
}

bool StagedPaths::AssignIdeally(std::span<const Commodity> commodities, Assignment& assignment) {
  const Load max_load = assignment.max_load;
  const Load lower_bound = assignment.lower_bound;
  const Proof proof = assignment.proof;
  const bool done = AssignParts(commodities, true, assignment);
  assignment.max_load = max_load;
  assignment.lower_bound = lower_bound;
  assignment.proof = proof;
  return done;
}

bool StagedPaths::AssignParts(std::span<const Commodity> commodities, bool is_ideal,
                              Assignment& assignment) {
  if (!view_.folded_clos() || commodities.empty()) return false;
  const std::uint32_t subflows = commodities.front().subflows;
  const bool same_counts = std::all_of(commodities.begin(), commodities.end(),
                                       [&](const Commodity& c) { return c.subflows == subflows; });
  if (!same_counts || commodities.size() > std::numeric_limits<std::int32_t>::max() / subflows) {
    return false;
  }
  if (!stages_.Build(commodities, is_ideal)) return false;
  for (std::uint32_t part = 0; part < stages_.parts().size(); ++part) {
    if (stages_.parts()[part].in_use) ColorPart(part, commodities, assignment);
  }
  return true;
}

void StagedPaths::ColorPart(std::uint32_t index, std::span<const Commodity> commodities,
                            Assignment& assignment) {
  const FoldedClos& clos = *view_.folded_clos();
  const LiveStages::Part& part = stages_.parts()[index];
  const std::uint32_t subflows = commodities.front().subflows;
  const bool has_all = clos.parts == 1;
  const std::size_t count = has_all ? commodities.size() : part.commodities.size();
  edges_.clear();
  edges_.reserve(count * subflows);
  for (std::size_t place = 0; place < count; ++place) {
    const Commodity& commodity = commodities[has_all ? place : part.commodities[place]];
    if (commodity.source == commodity.destination) continue;
    const graph::BipartiteEdge edge{clos.blocks[view_.FoldedLeaf(commodity.source)].number,
                                    clos.blocks[view_.FoldedLeaf(commodity.destination)].number};
    for (std::uint32_t subflow = 0; subflow < subflows; ++subflow) edges_.push_back(edge);
  }
  if (edges_.empty()) return;
  const auto colors = coloring_.Color(edges_, part.tiers);
  const bool is_plain = clos.in_file_order && std::ranges::all_of(part.stages, [](const auto& s) {
                          return s.labels.empty();
                        });
  std::size_t edge = 0;
  for (std::size_t place = 0; place < count; ++place) {
    const std::size_t i = has_all ? place : part.commodities[place];
    const Commodity& commodity = commodities[i];
    if (commodity.source == commodity.destination) continue;
    std::int32_t* const paths = &assignment.paths[assignment.first[i]];
    if (is_plain) {
      for (std::uint32_t subflow = 0; subflow < subflows; ++subflow) {
        paths[subflow] = static_cast<std::int32_t>(colors[edge++]);
      }
      continue;
    }
    const std::uint32_t from = view_.FoldedLeaf(commodity.source);
    const std::uint32_t common = clos.CommonBlock(from, view_.FoldedLeaf(commodity.destination));
    const auto& labels = part.stages[clos.blocks[common].tier - 1].labels;
    for (std::uint32_t subflow = 0; subflow < subflows; ++subflow) {
      const std::uint32_t color = colors[edge++];
      paths[subflow] = clos.PathOf(from, common, labels.empty() ? color : labels[color]);
    }
  }
  const Proof proof = ProofOf(index);
  const bool is_first = assignment.max_load == Load{};
  if (is_first || assignment.proof == Proof::kNone || proof == Proof::kNone) {
    assignment.proof = is_first ? proof : Proof::kNone;
  } else if (assignment.proof != proof) {
    assignment.proof = Proof::kBoundMet;
  }
  for (std::uint32_t tier = 0; tier < part.tiers.size(); ++tier) {
    const auto& load = coloring_.loads()[tier];
    const std::int64_t share = kLoadUnit / subflows;
    const std::int64_t rate = part.tiers[tier].rate;
    assignment.max_load = std::max(assignment.max_load, MakeLoad(view_, load.most * share, rate));
    assignment.lower_bound =
        std::max(assignment.lower_bound, MakeLoad(view_, load.bound * share, rate));
  }
}

Proof StagedPaths::ProofOf(std::uint32_t index) const {
  const FoldedClos& clos = *view_.folded_clos();
  const LiveStages::Part& part = stages_.parts()[index];
  if (part.tiers.size() == 1) return Proof::kTwoTiers;
  bool is_wide = true;
  for (const std::uint32_t i : clos.BlocksOf(index)) {
    const FoldedClos::Block& block = clos.blocks[i];
    if (block.tier == 0 || block.parent == FoldedClos::kNone) continue;
    const graph::LaminarTier& above = part.tiers[block.tier];
    const std::int64_t below = part.tiers[block.tier - 1].rate;
    std::uint32_t narrowest = above.tops_above();
    for (std::size_t top = 0; top + 1 < above.first_above.size(); ++top) {
      narrowest = std::min(narrowest, above.first_above[top + 1] - above.first_above[top]);
    }
    // Rates of links are below 2^53 or so; the ratio is whole.
    const std::int64_t ratio = above.rate / below;
    is_wide = is_wide && above.rate % below == 0 && narrowest * ratio >= block.children;
  }
  if (is_wide) return Proof::kNotNarrower;
  return coloring_.has_one_height() ? Proof::kOneHeight : Proof::kNone;
}

}  // namespace espalier::controller
