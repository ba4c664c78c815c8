#include "controller/routing/exact/equitable_paths.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace espalier::controller {
namespace {

constexpr std::uint8_t kSends = 1;
constexpr std::uint8_t kReceives = 2;

}  // namespace

bool EquitablePaths::ReadCommodities(std::span<const Commodity> commodities) {
  // One pass over the commodities, which are most of the memory that is read.
  reaches_.assign(view_.clos()->leaves, 0);
  const std::uint32_t subflows = commodities.front().subflows;
  edges_.resize(commodities.size() * subflows);
  graph::BipartiteEdge* edge = edges_.data();
  bool same_counts = true;
  for (const Commodity& commodity : commodities) {
    same_counts = same_counts && commodity.subflows == subflows;
    if (commodity.source == commodity.destination) continue;
    reaches_[commodity.source] |= kSends;
    reaches_[commodity.destination] |= kReceives;
    for (std::uint32_t subflow = 0; subflow < subflows; ++subflow) {
      *edge++ = {commodity.source, commodity.destination};
    }
  }
  edges_.resize(static_cast<std::size_t>(edge - edges_.data()));
  return same_counts;
}

bool EquitablePaths::FindColors() {
  const Clos& clos = *view_.clos();
  all_routable_ = true;
  colors_.clear();
  for (std::uint32_t leaf = 0; leaf < clos.leaves; ++leaf) {
    for (const std::uint8_t direction : {kSends, kReceives}) {
      if ((reaches_[leaf] & direction) == 0) continue;
      const auto& live = direction == kSends ? clos.up_live : clos.down_live;
      const auto mask = std::span(live).subspan(std::size_t{leaf} * clos.words, clos.words);
      if (std::all_of(mask.begin(), mask.end(), [](std::uint64_t word) { return word == 0; })) {
        reaches_[leaf] = static_cast<std::uint8_t>(reaches_[leaf] & ~direction);
        all_routable_ = false;
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

bool EquitablePaths::IsRoutable(std::uint32_t source, std::uint32_t destination) const {
  return source != destination && (all_routable_ || ((reaches_[source] & kSends) != 0 &&
                                                     (reaches_[destination] & kReceives) != 0));
}

bool EquitablePaths::Assign(std::span<const Commodity> commodities, Assignment& assignment) {
  if (!view_.clos() || !view_.clos()->equal_rates || commodities.empty()) return false;
  const std::uint32_t subflows = commodities.front().subflows;
  if (commodities.size() > std::numeric_limits<std::int32_t>::max() / subflows) return false;
  if (!ReadCommodities(commodities) || !FindColors()) return false;

  const Clos& clos = *view_.clos();
  if (!all_routable_) {
    std::erase_if(edges_, [&](const auto& edge) { return !IsRoutable(edge.left, edge.right); });
  }
  if (edges_.empty()) return true;
  const auto colors = static_cast<std::uint32_t>(spines_.size());
  const auto coloring = coloring_.Color(edges_, clos.leaves, clos.leaves, colors);
  const std::uint16_t* color = coloring.data();
  std::int32_t* path = assignment.paths.data();
  for (const Commodity& commodity : commodities) {
    const std::int32_t* const end = path + subflows;
    if (!IsRoutable(commodity.source, commodity.destination)) {
      path += subflows;
      continue;
    }
    for (; path != end; ++path) {
      *path = clos.PathThrough(commodity.source, commodity.destination, spines_[*color++]);
    }
  }
  std::int64_t capacity = 0;
  for (std::size_t i = 0; i < clos.up.size() && capacity == 0; ++i) {
    if (clos.up[i] != kNoLink) capacity = view_.capacities()[clos.up[i]];
  }
  const std::int64_t share = kLoadUnit / subflows;
  assignment.max_load = MakeLoad(view_, coloring_.most_per_color() * share, capacity);
  assignment.lower_bound = assignment.max_load;
  assignment.proof = Proof::kTwoTiers;
  return true;
}

}  // namespace espalier::controller
