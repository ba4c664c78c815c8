#include "common/graph/laminar_coloring.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::graph {
namespace {

__extension__ using Wide = __int128;

std::int64_t DivideUp(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::span<const std::uint32_t> LaminarColoring::Color(std::span<const BipartiteEdge> edges,
                                                      std::span<const LaminarTier> tiers) {
  ESPALIER_CHECK(!tiers.empty() && edges.size() <= 0x7FFF'FFFF, "tiers={} edges={}", tiers.size(),
                 edges.size());
  loads_.assign(tiers.size(), {});
  colors_.resize(edges.size());
  ColorStages(edges, tiers, false);
  const bool is_single = std::ranges::all_of(loads_, [](const auto& l) { return l.most <= 1; });
  if (is_single) {
    // A tier that carries anything carries at least one flow.
    for (TierLoad& load : loads_) load.bound = load.most;
    return colors_;
  }
  ComputeBounds(edges, tiers);
  const bool is_even =
      std::ranges::all_of(loads_, [](const auto& load) { return load.most == load.bound; });
  if (is_even) return colors_;

  const std::vector<TierLoad> plain_loads = loads_;
  plain_ = colors_;
  ColorStages(edges, tiers, true);
  CountLoads(edges, tiers);
  if (!IsBetter(loads_, plain_loads, tiers)) {
    loads_ = plain_loads;
    colors_.swap(plain_);
  }
  return colors_;
}

void LaminarColoring::ColorStages(std::span<const BipartiteEdge> edges,
                                  std::span<const LaminarTier> tiers, bool balance) {
  std::vector<std::int64_t> limits(tiers.size());
  const auto balance_group = [&](std::size_t tier, std::uint32_t count,
                                 std::span<const std::uint32_t> index,
                                 std::span<std::uint32_t> colors) {
    for (std::size_t t = tier + 1; t < tiers.size(); ++t) {
      // The links of tier t below one top of this stage.
      limits[t] = loads_[t].bound * (tiers[t].tops_above() / tiers[tier].tops_above());
    }
    split_.Balance(edges, index, tiers, tier, count, limits, colors);
  };
  if (balance) {
    // The colours of stage 0 are still those of the colouring by leaves, at least where flows do
    // not leave their pods. The others are restored from their later colours.
    for (std::size_t i = 0; i < edges.size(); ++i) {
      for (std::size_t tier = HeightOf(edges[i], tiers) - 1; tier > 0; --tier) {
        const auto& first = tiers[tier].first_above;
        const auto above = std::upper_bound(first.begin(), first.end(), colors_[i]);
        colors_[i] = static_cast<std::uint32_t>(above - first.begin()) - 1;
      }
    }
    index_.resize(edges.size());
    for (std::size_t i = 0; i < edges.size(); ++i) index_[i] = static_cast<std::uint32_t>(i);
    balance_group(0, tiers[0].first_above[1], index_, colors_);
  } else {
    const auto stage =
        coloring_.Color(edges, tiers[0].blocks, tiers[0].blocks, tiers[0].first_above[1]);
    std::copy(stage.begin(), stage.end(), colors_.begin());
    loads_[0].most = coloring_.most_per_color();
  }
  has_one_height_ = true;
  std::size_t before = edges.size();
  for (std::size_t tier = 1; tier < tiers.size(); ++tier) {
    Bucket(edges, tiers, tier);
    has_one_height_ = has_one_height_ && (edges_.empty() || edges_.size() == before);
    before = edges_.size();
    if (edges_.empty()) break;
    for (std::uint32_t group = 0; group < tiers[tier].tops(); ++group) {
      const std::uint32_t begin = group_end_[group];
      const std::uint32_t size = group_end_[group + 1] - begin;
      if (size == 0) continue;
      const std::uint32_t first = tiers[tier].first_above[group];
      const std::uint32_t count = tiers[tier].first_above[group + 1] - first;
      const auto stage = coloring_.Color(std::span(edges_).subspan(begin, size), tiers[tier].blocks,
                                         tiers[tier].blocks, count);
      loads_[tier].most = std::max<std::int64_t>(loads_[tier].most, coloring_.most_per_color());
      if (balance && tier + 1 < tiers.size()) {
        group_colors_.assign(stage.begin(), stage.end());
        balance_group(tier, count, std::span(index_).subspan(begin, size), group_colors_);
        for (std::uint32_t i = 0; i < size; ++i) {
          colors_[index_[begin + i]] = first + group_colors_[i];
        }
        continue;
      }
      for (std::uint32_t i = 0; i < size; ++i) colors_[index_[begin + i]] = first + stage[i];
    }
  }
}

void LaminarColoring::Bucket(std::span<const BipartiteEdge> edges,
                             std::span<const LaminarTier> tiers, std::size_t tier) {
  const auto block_of = tiers[tier].block_of;
  group_end_.assign(tiers[tier].tops() + 2, 0);
  found_.resize(edges.size());
  found_index_.resize(edges.size());
  std::size_t found = 0;
  // Writes every edge and keeps those that leave their blocks, without a branch.
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const BipartiteEdge blocks{block_of[edges[i].left], block_of[edges[i].right]};
    const std::uint32_t leaves = blocks.left != blocks.right ? 1 : 0;
    found_[found] = blocks;
    found_index_[found] = static_cast<std::uint32_t>(i);
    found += leaves;
    // An edge of a lower height may have a number that no top of this tier has.
    group_end_[leaves != 0 ? colors_[i] + 2 : 0] += leaves;
  }
  for (std::size_t group = 2; group < group_end_.size(); ++group) {
    group_end_[group] += group_end_[group - 1];
  }
  edges_.resize(found);
  index_.resize(found);
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t at = group_end_[colors_[found_index_[i]] + 1]++;
    edges_[at] = found_[i];
    index_[at] = found_index_[i];
  }
}

void LaminarColoring::ComputeBounds(std::span<const BipartiteEdge> edges,
                                    std::span<const LaminarTier> tiers) {
  loads_[0].bound = loads_[0].most;
  for (std::size_t tier = 1; tier < tiers.size(); ++tier) {
    counts_.assign(2 * std::size_t{tiers[tier].blocks}, 0);
    for (const BipartiteEdge& edge : edges) {
      const std::uint32_t from = tiers[tier].block_of[edge.left];
      const std::uint32_t to = tiers[tier].block_of[edge.right];
      if (from == to) continue;
      ++counts_[from];
      ++counts_[tiers[tier].blocks + to];
    }
    loads_[tier].bound = DivideUp(*std::ranges::max_element(counts_), tiers[tier].tops_above());
  }
}

void LaminarColoring::CountLoads(std::span<const BipartiteEdge> edges,
                                 std::span<const LaminarTier> tiers) {
  for (std::size_t tier = 0; tier < tiers.size(); ++tier) {
    const std::uint32_t tops = tiers[tier].tops_above();
    counts_.assign(2 * std::size_t{tiers[tier].blocks} * tops, 0);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const std::size_t height = HeightOf(edges[i], tiers);
      if (height <= tier) continue;
      std::uint32_t top = colors_[i];
      for (std::size_t above = height - 1; above > tier; --above) {
        const auto& first = tiers[above].first_above;
        top = static_cast<std::uint32_t>(std::upper_bound(first.begin(), first.end(), top) -
                                         first.begin()) -
              1;
      }
      ++counts_[std::size_t{tiers[tier].BlockOf(edges[i].left)} * tops + top];
      ++counts_[(tiers[tier].blocks + std::size_t{tiers[tier].BlockOf(edges[i].right)}) * tops +
                top];
    }
    loads_[tier].most = *std::ranges::max_element(counts_);
  }
}

bool LaminarColoring::IsBetter(std::span<const TierLoad> loads, std::span<const TierLoad> than,
                               std::span<const LaminarTier> tiers) const {
  // First the busiest tier, then how far all tiers are above their bounds.
  const auto busiest = [&](std::span<const TierLoad> of) {
    std::size_t best = 0;
    for (std::size_t tier = 1; tier < of.size(); ++tier) {
      if (Wide{of[tier].most} * tiers[best].rate > Wide{of[best].most} * tiers[tier].rate) {
        best = tier;
      }
    }
    return best;
  };
  const std::size_t x = busiest(loads);
  const std::size_t y = busiest(than);
  const Wide here = Wide{loads[x].most} * tiers[y].rate;
  const Wide there = Wide{than[y].most} * tiers[x].rate;
  if (here != there) return here < there;
  const auto excess = [](std::span<const TierLoad> of) {
    std::int64_t sum = 0;
    for (const TierLoad& load : of) sum += load.most - load.bound;
    return sum;
  };
  return excess(loads) < excess(than);
}

}  // namespace espalier::graph
