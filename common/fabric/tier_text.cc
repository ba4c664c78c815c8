#include "common/fabric/tier_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace espalier::fabric {
namespace {

// "8", or "2 to 8".
std::string RangeText(const std::vector<std::int64_t>& values) {
  const auto [least, most] = std::ranges::minmax(values);
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

std::string CountText(const std::vector<std::int64_t>& values, std::string_view one,
                      std::string_view many) {
  return RangeText(values) + " " + std::string(std::ranges::max(values) == 1 ? one : many);
}

std::vector<const FoldedClos::Block*> BlocksOf(const FoldedClos& clos, std::uint32_t tier) {
  std::vector<const FoldedClos::Block*> blocks;
  for (const FoldedClos::Block& block : clos.blocks) {
    if (block.tier == tier) blocks.push_back(&block);
  }
  return blocks;
}

template <typename Value>
std::vector<std::int64_t> ValuesOf(const std::vector<const FoldedClos::Block*>& blocks,
                                   Value value) {
  std::vector<std::int64_t> values;
  for (const FoldedClos::Block* block : blocks) values.push_back((block->*value));
  return values;
}

// Of a fabric whose lowest tier are NICs that choose among several leaves.
std::string ShapeAboveNics(const FoldedClos& clos) {
  using Block = FoldedClos::Block;
  const auto groups = BlocksOf(clos, 1);
  const auto leaves = ValuesOf(groups, &Block::labels);
  std::string group =
      fmt::format("{} and {}", CountText(ValuesOf(groups, &Block::children), "NIC", "NICs"),
                  CountText(leaves, "leaf", "leaves"));
  if (clos.tiers == 2) return group;
  const std::string planes =
      fmt::format("{} of {}", CountText(leaves, "plane", "planes"),
                  CountText(ValuesOf(BlocksOf(clos, 2), &Block::width), "spine", "spines"));
  std::string text = fmt::format("{} groups of {}, {}", groups.size(), group, planes);
  if (clos.tiers == 3) return text;
  return text + fmt::format(" and {} tiers above", clos.tiers - 3);
}

std::string ShapeText(const FoldedClos& clos) {
  using Block = FoldedClos::Block;
  const auto pods = BlocksOf(clos, 1);
  const std::string of_pod = CountText(ValuesOf(pods, &Block::children), "leaf", "leaves");
  const auto ways = ValuesOf(pods, &Block::labels);
  if (clos.tiers == 2) {
    return fmt::format("{} and {}", of_pod, CountText(ways, "spine", "spines"));
  }
  const std::string pod = fmt::format(
      "pods of {} and {}", of_pod, CountText(ways, "aggregation switch", "aggregation switches"));
  const auto above = ValuesOf(BlocksOf(clos, 2), &Block::width);
  const std::string planes = fmt::format("{} of {}", CountText(ways, "plane", "planes"),
                                         CountText(above, "core", "cores"));
  if (clos.tiers == 3)
    return fmt::format("{} {}, {}", RangeText(ValuesOf(BlocksOf(clos, 2), &Block::children)), pod,
                       planes);
  std::string text = fmt::format("{} {}", pods.size(), pod);
  for (std::uint32_t tier = 2; tier < clos.tiers; ++tier) {
    const auto blocks = BlocksOf(clos, tier);
    text += fmt::format(", {} of {} and {} switches in tier {}",
                        CountText({static_cast<std::int64_t>(blocks.size())}, "block", "blocks"),
                        CountText(ValuesOf(blocks, &Block::children), "child", "children"),
                        RangeText(ValuesOf(blocks, &Block::labels)), tier);
  }
  return text;
}

// What the rates of links say: whether some block has less above it than below, or whether rates of
// one tier differ.
std::string WidthText(const Topology& topology, const FoldedClos& clos) {
  std::vector<std::int64_t> rate(clos.tiers);
  double narrowest = 1;
  for (const FoldedClos::Block& block : clos.blocks) {
    for (std::size_t i = 0; i < std::size_t{block.labels} * block.children; ++i) {
      for (const auto* links : {&clos.up, &clos.down}) {
        const auto hop = DirectedLink::FromIndex((*links)[block.first_link + i]);
        const std::int64_t here = topology.link(hop.link).rate.value;
        if (rate[block.tier] == 0) rate[block.tier] = here;
        if (rate[block.tier] != here) {
          return fmt::format("links of tier {} have different rates", block.tier);
        }
      }
    }
  }
  for (const FoldedClos::Block& block : clos.blocks) {
    if (block.parent == FoldedClos::kNone || block.tier == 0) continue;
    const double up = static_cast<double>(rate[block.tier + 1]) * clos.blocks[block.parent].width;
    narrowest = std::min(narrowest, up / (static_cast<double>(rate[block.tier]) * block.children));
  }
  if (clos.tiers == 2) return "all links between switches have one rate";
  if (narrowest >= 1) return "not narrower upwards";
  return fmt::format("oversubscribed {:.3g}:1 above the leaves", 1 / narrowest);
}

}  // namespace

std::string DescribeTiers(const Topology& topology,
                          const tl::expected<FoldedClos, std::string>& recognized) {
  if (!recognized && recognized.error() == kNoSwitchLinks) {
    return "no links between switches: no flow has a choice of paths";
  }
  if (!recognized) {
    return fmt::format(
        "general fabric, no folded Clos ({}): paths are searched for, and are optimal only where "
        "the lower bound is met",
        recognized.error());
  }
  const FoldedClos& clos = *recognized;
  const std::string parts = clos.parts == 1 ? "" : fmt::format("{} separate parts, ", clos.parts);
  if (topology.HasSeveralUplinks(clos.tops.front())) {
    const std::uint32_t switches = clos.tiers - 1;
    return fmt::format(
        "folded Clos of {} tier{} below which the uplinks of NICs are chosen, too: {}{}; {}",
        switches, switches == 1 ? "" : "s", parts, ShapeAboveNics(clos), WidthText(topology, clos));
  }
  return fmt::format("folded Clos of {} tiers: {}{}; {}", clos.tiers, parts, ShapeText(clos),
                     WidthText(topology, clos));
}

}  // namespace espalier::fabric
