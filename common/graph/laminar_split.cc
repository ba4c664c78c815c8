#include "common/graph/laminar_split.h"

#include <algorithm>
#include <utility>

namespace espalier::graph {
namespace {

constexpr std::uint8_t kUndecided = 2;

}  // namespace

std::size_t HeightOf(const BipartiteEdge& edge, std::span<const LaminarTier> tiers) {
  std::size_t tier = 0;
  while (tier < tiers.size() && tiers[tier].BlockOf(edge.left) != tiers[tier].BlockOf(edge.right)) {
    ++tier;
  }
  return tier;
}

std::uint32_t LaminarSplit::BlockAt(std::uint32_t flow, std::size_t tier, std::size_t side) const {
  const BipartiteEdge& edge = edges_[index_[flow]];
  return tiers_[tier].BlockOf(side == 0 ? edge.left : edge.right);
}

void LaminarSplit::Balance(std::span<const BipartiteEdge> edges,
                           std::span<const std::uint32_t> index, std::span<const LaminarTier> tiers,
                           std::size_t tier, std::uint32_t count,
                           std::span<const std::int64_t> limits, std::span<std::uint32_t> colors) {
  edges_ = edges;
  index_ = index;
  tiers_ = tiers;
  colors_ = colors;
  tier_ = tier;
  count_ = count;
  heights_.resize(index.size());
  flows_.resize(std::max<std::size_t>(flows_.size(), count));
  for (auto& flows : flows_) flows.clear();
  counts_.resize(std::max(counts_.size(), 2 * tiers.size()));
  for (std::size_t t = tier + 1; t < tiers.size(); ++t) {
    for (std::size_t side = 0; side < 2; ++side) {
      counts_[2 * t + side].assign(std::size_t{tiers[t].blocks} * count, 0);
    }
  }
  for (std::uint32_t flow = 0; flow < index.size(); ++flow) {
    heights_[flow] = static_cast<std::uint32_t>(HeightOf(edges[index[flow]], tiers));
    flows_[colors[flow]].push_back(flow);
    for (std::size_t t = tier + 1; t < heights_[flow]; ++t) {
      for (std::size_t side = 0; side < 2; ++side) {
        ++CountOf(t, side, BlockAt(flow, t, side), colors[flow]);
      }
    }
  }
  for (std::size_t t = tiers.size(); t-- > tier + 1;) {
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::uint32_t block = 0; block < tiers[t].blocks; ++block) {
        const auto row =
            std::span(counts_[2 * t + side]).subspan(std::size_t{block} * count, count);
        for (;;) {
          const auto most = std::ranges::max_element(row);
          const auto least = std::ranges::min_element(row);
          const std::uint32_t before = *most;
          if (before <= limits[t] || before - *least < 2) break;
          Split(static_cast<std::uint32_t>(most - row.begin()),
                static_cast<std::uint32_t>(least - row.begin()));
          if (std::max(*most, *least) >= before) break;
        }
      }
    }
  }
}

void LaminarSplit::Split(std::uint32_t a, std::uint32_t b) {
  both_.resize(flows_[a].size() + flows_[b].size());
  std::ranges::merge(flows_[a], flows_[b], both_.begin());
  PairFlows(0);
  PairFlows(1);
  Alternate();
  flows_[a].clear();
  flows_[b].clear();
  for (std::size_t place = 0; place < both_.size(); ++place) {
    const std::uint32_t flow = both_[place];
    const std::uint32_t color = half_[place] == 0 ? a : b;
    flows_[color].push_back(flow);
    if (colors_[flow] == color) continue;
    for (std::size_t t = tier_ + 1; t < heights_[flow]; ++t) {
      for (std::size_t side = 0; side < 2; ++side) {
        const std::uint32_t block = BlockAt(flow, t, side);
        --CountOf(t, side, block, colors_[flow]);
        ++CountOf(t, side, block, color);
      }
    }
    colors_[flow] = color;
  }
}

void LaminarSplit::PairFlows(std::size_t side) {
  std::vector<std::uint32_t>& pairs = pairs_[side];
  pairs.assign(both_.size(), kNone);
  const std::size_t heights = tiers_.size() + 1;
  // Takes the flow at this place as one of a block of this tier.
  const auto offer = [&](std::uint32_t place, std::size_t tier,
                         std::vector<std::uint32_t>& opened) {
    const std::uint32_t flow = both_[place];
    const std::size_t key = BlockAt(flow, tier, side) * heights + heights_[flow];
    std::uint32_t& other = open_[key];
    if (other == kNone) {
      other = place;
      opened.push_back(static_cast<std::uint32_t>(key));
      return;
    }
    pairs[place] = other;
    pairs[other] = place;
    other = kNone;
  };
  touched_.clear();
  open_.resize(std::max(open_.size(), tiers_[tier_].blocks * heights), kNone);
  for (std::uint32_t place = 0; place < both_.size(); ++place) offer(place, tier_, touched_);
  for (std::size_t tier = tier_; !touched_.empty(); ++tier) {
    // All are closed before any of their parents' is opened, as the keys overlap.
    next_touched_.clear();
    for (const std::uint32_t key : touched_) {
      const std::uint32_t place = std::exchange(open_[key], kNone);
      if (place != kNone && heights_[both_[place]] > tier + 1) next_touched_.push_back(place);
    }
    touched_.clear();
    for (const std::uint32_t place : next_touched_) offer(place, tier + 1, touched_);
  }
}

void LaminarSplit::Alternate() {
  half_.assign(both_.size(), kUndecided);
  std::uint8_t next = 0;
  const auto walk = [&](std::uint32_t place, std::size_t side) {
    std::uint8_t half = next;
    while (place != kNone && half_[place] == kUndecided) {
      half_[place] = half;
      half ^= 1;
      place = pairs_[side][place];
      side ^= 1;
    }
    next = half;
  };
  // Paths from their ends, then cycles.
  for (const bool only_ends : {true, false}) {
    for (std::uint32_t place = 0; place < both_.size(); ++place) {
      if (half_[place] != kUndecided) continue;
      if (pairs_[0][place] == kNone) {
        walk(place, 1);
      } else if (pairs_[1][place] == kNone || !only_ends) {
        walk(place, 0);
      }
    }
  }
}

}  // namespace espalier::graph
