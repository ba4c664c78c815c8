#include "controller/routing/uneven_paths.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace espalier::controller {
namespace {

using fabric::FoldedClos;

// By how much of a flow a link may carry more than a whole number of them: 1 / this; 0: no limit.
std::uint32_t PartsAbove(UnevenPaths::Rule rule) {
  switch (rule) {
    case UnevenPaths::Rule::kHalves:
      return 2;
    case UnevenPaths::Rule::kQuarters:
      return 4;
    case UnevenPaths::Rule::kEighths:
      return 8;
    case UnevenPaths::Rule::kExact:
      break;
  }
  return 0;
}

}  // namespace

bool UnevenPaths::Assign(std::span<const Commodity> commodities, Rule rule,
                         std::span<const std::uint8_t> is_rigid, Assignment& assignment) {
  is_rigid_.assign(is_rigid.begin(), is_rigid.end());
  is_rigid_.resize(commodities.size());
  has_rigid_ = false;
  bool has_divisible = false;
  least_subflows_ = kMaxSubflows;
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    if (commodity.subflows < 2) is_rigid_[i] = 1;
    if (commodity.source == commodity.destination) continue;
    has_rigid_ = has_rigid_ || is_rigid_[i] != 0;
    if (is_rigid_[i] != 0) continue;
    has_divisible = true;
    least_subflows_ = std::min(least_subflows_, commodity.subflows);
  }
  if (!has_divisible || !stages_.Build(commodities, false)) return false;
  pieces_per_flow_ = rule == Rule::kExact && !has_rigid_ ? least_subflows_ / 2 : 1;
  if (!AssignBy(rule, commodities, assignment)) return false;
  if (!has_rigid_ || rule != Rule::kExact) return true;
  // A rigid flow on a colour that two tops share costs more than a load a little above the least.
  Assignment other;
  other.first = assignment.first;
  for (const Rule fewer : {Rule::kEighths, Rule::kQuarters, Rule::kHalves}) {
    other.paths.assign(assignment.paths.size(), kNoPath);
    if (!AssignBy(fewer, commodities, other) || other.max_load >= assignment.max_load) continue;
    assignment.paths.swap(other.paths);
    assignment.shares.swap(other.shares);
    assignment.max_load = other.max_load;
  }
  return true;
}

bool UnevenPaths::AssignBy(Rule rule, std::span<const Commodity> commodities,
                           Assignment& assignment) {
  Assignment found;
  found.first = assignment.first;
  found.paths.assign(assignment.paths.size(), kNoPath);
  for (const Commodity& commodity : commodities) {
    found.shares.insert(found.shares.end(), commodity.subflows, kLoadUnit / commodity.subflows);
  }
  for (std::uint32_t part = 0; part < stages_.parts().size(); ++part) {
    if (!stages_.parts()[part].in_use) continue;
    const std::uint32_t degree = CollectPieces(part, commodities);
    if (pieces_.empty()) continue;
    if (degree > graph::EdgeColoring::kMaxColors) return false;
    if (!LayOut(degree, stages_.parts()[part].tiers.front().tops_above(), rule)) return false;
    Color(part, commodities, degree);
    for (std::size_t piece = 0; piece < pieces_.size(); piece += pieces_per_flow_) {
      const std::uint32_t i = pieces_[piece].commodity;
      flow_parts_.clear();
      for (std::size_t p = piece; p < piece + pieces_per_flow_; ++p) {
        AppendParts(part, commodities[i], pieces_[p]);
      }
      const std::size_t first = found.first[i];
      const std::size_t subflows = commodities[i].subflows;
      const auto paths = std::span(found.paths).subspan(first, subflows);
      if (is_rigid_[i] != 0) {
        std::ranges::fill(paths, std::ranges::max(flow_parts_, {}, &FlowPart::share).path);
        continue;
      }
      FillSubflows(paths, std::span(found.shares).subspan(first, subflows));
    }
  }
  assignment.paths.swap(found.paths);
  assignment.shares.swap(found.shares);
  assignment.max_load = ComputeMaxLoad(view_, ComputeLoads(view_, commodities, assignment));
  return true;
}

std::uint32_t UnevenPaths::LeafOf(std::uint32_t leaf) const {
  return view_.folded_clos()->blocks[view_.FoldedLeaf(leaf)].number;
}

std::uint32_t UnevenPaths::HeightOf(const Commodity& commodity) const {
  const FoldedClos& clos = *view_.folded_clos();
  const std::uint32_t common =
      clos.CommonBlock(view_.FoldedLeaf(commodity.source), view_.FoldedLeaf(commodity.destination));
  return clos.blocks[common].tier;
}

std::uint32_t UnevenPaths::CollectPieces(std::uint32_t index,
                                         std::span<const Commodity> commodities) {
  const LiveStages::Part& part = stages_.parts()[index];
  const bool has_all = view_.folded_clos()->parts == 1;
  const std::size_t count = has_all ? commodities.size() : part.commodities.size();
  std::vector<std::uint32_t> sent(part.leaf_numbers.size());
  std::vector<std::uint32_t> received(part.leaf_numbers.size());
  pieces_.clear();
  for (std::size_t place = 0; place < count; ++place) {
    const auto i = has_all ? static_cast<std::uint32_t>(place) : part.commodities[place];
    if (commodities[i].source == commodities[i].destination) continue;
    pieces_.insert(pieces_.end(), pieces_per_flow_,
                   {.commodity = i, .is_rigid = is_rigid_[i] != 0});
    sent[LeafOf(commodities[i].source)] += pieces_per_flow_;
    received[LeafOf(commodities[i].destination)] += pieces_per_flow_;
  }
  if (pieces_.empty()) return 0;
  return std::max(std::ranges::max(sent), std::ranges::max(received));
}

bool UnevenPaths::LayOut(std::uint32_t degree, std::uint32_t tops, Rule rule) {
  const std::uint32_t whole = degree / tops;
  const std::uint32_t rest = degree % tops;
  if (whole == 0) return false;
  blocks_.clear();
  const auto add = [&](std::uint32_t count, std::uint32_t block_tops, std::uint32_t colors) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const Block last = blocks_.empty() ? Block{.tops = 0, .colors = 0} : blocks_.back();
      blocks_.push_back({.first_top = last.first_top + last.tops,
                         .tops = block_tops,
                         .first_color = last.first_color + last.colors,
                         .colors = colors});
    }
  };
  const std::uint32_t parts = PartsAbove(rule);
  if (parts > 0 && std::uint64_t{rest} * parts <= tops) {
    add(rest, parts, whole * parts + 1);
    add(tops - rest * parts, 1, whole);
    return true;
  }
  // Equal shares put ceil(degree k / tops) / k on a link, if k is the number of subflows over that
  // of pieces.
  const bool is_divisible =
      !has_rigid_ &&
      std::uint64_t{degree} * least_subflows_ % (std::uint64_t{tops} * pieces_per_flow_) == 0;
  if (is_divisible) return false;
  const std::uint32_t blocks = std::gcd(degree, tops);
  add(blocks, tops / blocks, degree / blocks);
  return true;
}

void UnevenPaths::Color(std::uint32_t index, std::span<const Commodity> commodities,
                        std::uint32_t degree) {
  const LiveStages::Part& part = stages_.parts()[index];
  edges_.clear();
  for (const Piece& piece : pieces_) {
    const Commodity& commodity = commodities[piece.commodity];
    edges_.push_back({LeafOf(commodity.source), LeafOf(commodity.destination)});
  }
  const auto leaves = static_cast<std::uint32_t>(part.leaf_numbers.size());
  const auto colors = coloring_.Color(edges_, leaves, leaves, degree);
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    pieces_[piece].color = colors[piece];
  }
  if (has_rigid_) PreferWholeColors(leaves, degree);
  for (Piece& piece : pieces_) piece.group = piece.color;
  for (std::uint32_t tier = 1; tier < part.tiers.size(); ++tier) {
    ColorTier(index, commodities, tier);
  }
}

const UnevenPaths::Block& UnevenPaths::BlockOf(std::uint32_t color) const {
  return *(std::ranges::upper_bound(blocks_, color, {}, &Block::first_color) - 1);
}

bool UnevenPaths::LiesOnOneTop(std::uint32_t color) const {
  const Block& block = BlockOf(color);
  const std::uint32_t place = color - block.first_color;
  // Colour c has the line from c * tops to (c + 1) * tops, top t that from t * colors on.
  return place * block.tops / block.colors == ((place + 1) * block.tops - 1) / block.colors;
}

void UnevenPaths::PreferWholeColors(std::uint32_t leaves, std::uint32_t degree) {
  std::vector<std::uint8_t> is_preferred(degree);
  std::vector<std::uint32_t> places;  // the preferred ones first
  for (const bool preferred : {true, false}) {
    for (std::uint32_t color = 0; color < degree; ++color) {
      if (LiesOnOneTop(color) == preferred) places.push_back(color);
      is_preferred[color] = LiesOnOneTop(color) ? 1 : 0;
    }
  }
  // The matchings with the most rigid pieces first.
  std::vector<std::uint32_t> rigid(degree);
  for (const Piece& piece : pieces_) rigid[piece.color] += piece.is_rigid ? 1 : 0;
  std::vector<std::uint32_t> sorted(degree);
  std::iota(sorted.begin(), sorted.end(), 0U);
  std::ranges::stable_sort(sorted, std::greater<>(), [&](std::uint32_t c) { return rigid[c]; });
  std::vector<std::uint32_t> becomes(degree);
  for (std::uint32_t i = 0; i < degree; ++i) becomes[sorted[i]] = places[i];
  std::vector<std::uint32_t> colors;
  std::vector<std::uint8_t> is_marked;
  for (const Piece& piece : pieces_) {
    colors.push_back(becomes[piece.color]);
    is_marked.push_back(piece.is_rigid ? 1 : 0);
  }
  preferred_colors_.Improve(edges_, leaves, leaves, is_preferred, is_marked, colors);
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
    pieces_[piece].color = colors[piece];
  }
}

void UnevenPaths::ColorTier(std::uint32_t index, std::span<const Commodity> commodities,
                            std::uint32_t tier) {
  const graph::LaminarTier& above = stages_.parts()[index].tiers[tier];
  std::uint32_t width = graph::EdgeColoring::kMaxColors;
  for (std::uint32_t top = 0; top < above.tops(); ++top) {
    width = std::min(width, above.first_above[top + 1] - above.first_above[top]);
  }
  order_.clear();
  for (std::uint32_t piece = 0; piece < pieces_.size(); ++piece) {
    if (HeightOf(commodities[pieces_[piece].commodity]) > tier) order_.push_back(piece);
  }
  std::ranges::stable_sort(order_, {}, [&](std::uint32_t piece) { return pieces_[piece].group; });
  std::uint32_t groups = 0;
  for (std::size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
    const std::uint32_t group = pieces_[order_[begin]].group;
    edges_.clear();
    for (; end < order_.size() && pieces_[order_[end]].group == group; ++end) {
      const Commodity& commodity = commodities[pieces_[order_[end]].commodity];
      edges_.push_back(
          {above.BlockOf(LeafOf(commodity.source)), above.BlockOf(LeafOf(commodity.destination))});
    }
    const auto places = coloring_.Color(edges_, above.blocks, above.blocks, width);
    for (std::size_t i = begin; i < end; ++i) {
      Piece& piece = pieces_[order_[i]];
      piece.places[tier] = places[i - begin];
      piece.group = groups + places[i - begin];
    }
    groups += width;
  }
}

void UnevenPaths::AppendParts(std::uint32_t part, const Commodity& commodity, const Piece& piece) {
  const Block* const home = &BlockOf(piece.color);
  const std::int64_t length = kLoadUnit / pieces_per_flow_;  // of a colour on the line
  const std::int64_t line = length * home->colors;
  const std::int64_t begin = length * (piece.color - home->first_color);
  // Top t of the block has what lies from line * t / tops to line * (t + 1) / tops, rounded down.
  std::int64_t top = begin * home->tops / line;
  while (line * (top + 1) / home->tops <= begin) ++top;
  for (std::int64_t from = begin; from < begin + length; ++top) {
    const std::int64_t to = std::min(line * (top + 1) / home->tops, begin + length);
    const auto at = home->first_top + static_cast<std::uint32_t>(top);
    flow_parts_.push_back({PathOf(part, commodity, piece, at), to - from});
    from = to;
  }
}

std::int32_t UnevenPaths::PathOf(std::uint32_t index, const Commodity& commodity,
                                 const Piece& piece, std::uint32_t top) const {
  const FoldedClos& clos = *view_.folded_clos();
  const LiveStages::Part& part = stages_.parts()[index];
  const std::uint32_t from = view_.FoldedLeaf(commodity.source);
  const std::uint32_t common = clos.CommonBlock(from, view_.FoldedLeaf(commodity.destination));
  const std::uint32_t height = clos.blocks[common].tier;
  for (std::uint32_t tier = 1; tier < height; ++tier) {
    top = part.stages[tier].first_above[top] + piece.places[tier];
  }
  const auto& labels = part.stages[height - 1].labels;
  return clos.PathOf(from, common, labels.empty() ? top : labels[top]);
}

void UnevenPaths::FillSubflows(std::span<std::int32_t> paths, std::span<std::int64_t> shares) {
  std::ranges::sort(flow_parts_, {}, &FlowPart::path);
  std::size_t count = 0;
  for (const FlowPart& part : flow_parts_) {
    if (count > 0 && paths[count - 1] == part.path) {
      shares[count - 1] += part.share;
      continue;
    }
    paths[count] = part.path;
    shares[count++] = part.share;
  }
  for (; count < paths.size(); ++count) {
    const auto greatest =
        static_cast<std::size_t>(std::ranges::max_element(shares.first(count)) - shares.begin());
    paths[count] = paths[greatest];
    shares[count] = shares[greatest] / 2;
    shares[greatest] -= shares[count];
  }
}

}  // namespace espalier::controller
