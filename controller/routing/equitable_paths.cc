#include "controller/routing/equitable_paths.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace espalier::controller {
namespace {

constexpr std::uint8_t kSends = 1;
constexpr std::uint8_t kReceives = 2;

}  // namespace

bool EquitablePaths::FindColors(std::span<const Commodity> commodities) {
  const Clos& clos = *view_.clos();
  // The usable spines are compared once for each leaf in use, not for each commodity.
  reaches_.assign(clos.leaves, 0);
  for (const Commodity& commodity : commodities) {
    if (commodity.source == commodity.destination) continue;
    reaches_[commodity.source] |= kSends;
    reaches_[commodity.destination] |= kReceives;
  }
  colors_.clear();
  for (std::uint32_t leaf = 0; leaf < clos.leaves; ++leaf) {
    for (const std::uint8_t direction : {kSends, kReceives}) {
      if ((reaches_[leaf] & direction) == 0) continue;
      const auto& live = direction == kSends ? clos.up_live : clos.down_live;
      const auto mask = std::span(live).subspan(std::size_t{leaf} * clos.words, clos.words);
      if (std::all_of(mask.begin(), mask.end(), [](std::uint64_t word) { return word == 0; })) {
        reaches_[leaf] = static_cast<std::uint8_t>(reaches_[leaf] & ~direction);
        continue;
      }
      if (colors_.empty()) colors_.assign(mask.begin(), mask.end());
      if (!std::equal(mask.begin(), mask.end(), colors_.begin(), colors_.end())) return false;
    }
  }
  spines_.clear();
  for (std::uint32_t word = 0; word < colors_.size(); ++word) {
    for (std::uint64_t left = colors_[word]; left != 0; left &= left - 1) {
      spines_.push_back(64 * word + static_cast<std::uint32_t>(std::countr_zero(left)));
    }
  }
  return spines_.size() <= graph::EdgeColoring::kMaxColors;
}

bool EquitablePaths::IsRoutable(const Commodity& commodity) const {
  return commodity.source != commodity.destination && (reaches_[commodity.source] & kSends) != 0 &&
         (reaches_[commodity.destination] & kReceives) != 0;
}

bool EquitablePaths::Assign(std::span<const Commodity> commodities, Assignment& assignment) {
  if (!view_.clos() || !view_.clos()->equal_rates || commodities.empty()) return false;
  const std::uint32_t subflows = commodities.front().subflows;
  const bool same_counts = std::all_of(commodities.begin(), commodities.end(),
                                       [&](const Commodity& c) { return c.subflows == subflows; });
  if (!same_counts || commodities.size() > std::numeric_limits<std::int32_t>::max() / subflows) {
    return false;
  }
  if (!FindColors(commodities)) return false;

  const Clos& clos = *view_.clos();
  edges_.clear();
  degrees_.assign(2 * std::size_t{clos.leaves}, 0);
  for (const Commodity& commodity : commodities) {
    if (!IsRoutable(commodity)) continue;
    degrees_[commodity.source] += subflows;
    degrees_[clos.leaves + commodity.destination] += subflows;
    edges_.insert(edges_.end(), subflows, {commodity.source, commodity.destination});
  }
  if (edges_.empty()) return true;
  const auto colors = static_cast<std::uint32_t>(spines_.size());
  const auto coloring = coloring_.Color(edges_, clos.leaves, clos.leaves, colors);
  std::size_t edge = 0;
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    if (!IsRoutable(commodity)) continue;
    for (std::uint32_t subflow = 0; subflow < subflows; ++subflow) {
      const std::uint32_t spine = spines_[coloring[edge++]];
      assignment.paths[assignment.first[i] + subflow] =
          clos.PathThrough(commodity.source, commodity.destination, spine);
    }
  }
  const std::uint32_t busiest = *std::max_element(degrees_.begin(), degrees_.end());
  std::int64_t capacity = 0;
  for (std::size_t i = 0; i < clos.up.size() && capacity == 0; ++i) {
    if (clos.up[i] != kNoLink) capacity = view_.capacities()[clos.up[i]];
  }
  const std::int64_t most = (busiest + colors - 1) / colors;
  assignment.max_load = MakeLoad(view_, most * (kLoadUnit / subflows), capacity);
  assignment.lower_bound = assignment.max_load;
  assignment.proof = Proof::kTwoTiers;
  return true;
}

}  // namespace espalier::controller
