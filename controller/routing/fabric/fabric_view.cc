#include "controller/routing/fabric/fabric_view.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::LinkState;
using fabric::NodeId;

std::int32_t Clos::PathThrough(std::uint32_t source, std::uint32_t destination,
                               std::uint32_t spine) const {
  if (all_known) return static_cast<std::int32_t>(spine);
  const std::uint64_t* up_words = &up_known[source * words];
  const std::uint64_t* down_words = &down_known[destination * words];
  int below = 0;
  for (std::uint32_t word = 0; word < spine / 64; ++word) {
    below += std::popcount(up_words[word] & down_words[word]);
  }
  const std::uint64_t lower = (std::uint64_t{1} << (spine % 64)) - 1;
  return below + std::popcount(up_words[spine / 64] & down_words[spine / 64] & lower);
}

std::uint32_t Clos::SpineOf(std::uint32_t source, std::uint32_t destination,
                            std::int32_t path) const {
  if (all_known) return static_cast<std::uint32_t>(path);
  std::int32_t left = path;
  for (std::uint32_t word = 0; word < words; ++word) {
    std::uint64_t both = up_known[source * words + word] & down_known[destination * words + word];
    const int here = std::popcount(both);
    if (left >= here) {
      left -= here;
      continue;
    }
    for (; left > 0; --left) both &= both - 1;
    return 64 * word + static_cast<std::uint32_t>(std::countr_zero(both));
  }
  ESPALIER_CHECK(false, "source={} destination={} path={}", source, destination, path);
  return 0;
}

FabricView::FabricView(const fabric::Topology& topology, const fabric::PathTable& paths)
    : topology_(topology),
      paths_(paths),
      leaf_of_(topology.nodes().size(), -1),
      capacities_(2 * topology.links().size()),
      capacities_bps_(capacities_.size()),
      is_switch_link_(capacities_.size()) {
  std::int64_t fastest = 0;
  for (std::size_t i = 0; i < capacities_.size(); ++i) {
    const fabric::LinkId link = DirectedLink::FromIndex(i).link;
    is_switch_link_[i] = topology.IsFabricLink(link);
    if (is_switch_link_[i]) fastest = std::max(fastest, topology.link(link).rate.value);
  }
  if (fastest > 0) unit_bps_ = fastest;
  FindLeaves();
  FindClos();
  FindFoldedClos();
  Refresh();
}

void FabricView::FindLeaves() {
  for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
    const auto attachment = paths_.FindAttachment(NodeId(static_cast<std::int32_t>(i)));
    if (attachment) leaf_of_[attachment->leaf.Index()] = 0;
  }
  for (std::size_t i = 0; i < leaf_of_.size(); ++i) {
    if (leaf_of_[i] < 0) continue;
    leaf_of_[i] = static_cast<std::int32_t>(leaves_.size());
    leaves_.emplace_back(static_cast<std::int32_t>(i));
  }
}

std::optional<std::uint32_t> FabricView::LeafOf(NodeId node) const {
  const std::int32_t leaf = leaf_of_[node.Index()];
  return leaf < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(leaf));
}

void FabricView::FindClos() {
  // Spines are numbered in file order, which is the order of paths.
  std::vector<std::int32_t> spine_of(topology_.nodes().size(), -1);
  Clos clos{.leaves = leaf_count()};
  for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    const auto outgoing = topology_.Outgoing(node);
    const bool joins_switches =
        topology_.nodes()[i].kind == fabric::NodeKind::kSwitch &&
        std::any_of(outgoing.begin(), outgoing.end(),
                    [&](DirectedLink hop) { return topology_.IsFabricLink(hop.link); });
    if (!joins_switches || leaf_of_[i] >= 0) continue;
    if (paths_.Level(node) != 1) return;
    spine_of[i] = static_cast<std::int32_t>(clos.spines++);
  }
  clos.words = (clos.spines + 63) / 64;
  clos.up.assign(std::size_t{clos.leaves} * clos.spines, kNoLink);
  clos.down = clos.up;
  for (std::size_t i = 0; i < capacities_.size(); ++i) {
    const DirectedLink hop = DirectedLink::FromIndex(i);
    const fabric::Link& link = topology_.link(hop.link);
    if (!is_switch_link_[i] || (link.directed && !hop.forward)) continue;
    const NodeId from = topology_.From(hop);
    const NodeId to = topology_.To(hop);
    const bool goes_up = leaf_of_[from.Index()] >= 0;
    const std::int32_t leaf = leaf_of_[goes_up ? from.Index() : to.Index()];
    const std::int32_t spine = spine_of[goes_up ? to.Index() : from.Index()];
    if (leaf < 0 || spine < 0 || paths_.Level(leaves_[static_cast<std::size_t>(leaf)]) != 0) return;
    const std::size_t at =
        static_cast<std::size_t>(leaf) * clos.spines + static_cast<std::size_t>(spine);
    std::uint32_t& entry = goes_up ? clos.up[at] : clos.down[at];
    if (entry != kNoLink) return;  // parallel links: more paths than spines
    entry = static_cast<std::uint32_t>(i);
  }
  clos.all_known = std::ranges::find(clos.up, kNoLink) == clos.up.end() &&
                   std::ranges::find(clos.down, kNoLink) == clos.down.end();
  clos.up_known.resize(std::size_t{clos.leaves} * clos.words);
  clos.down_known = clos.up_known;
  for (std::size_t i = 0; i < clos.up.size(); ++i) {
    const std::size_t word = i / clos.spines * clos.words + i % clos.spines / 64;
    const std::uint64_t bit = std::uint64_t{1} << (i % clos.spines % 64);
    if (clos.up[i] != kNoLink) clos.up_known[word] |= bit;
    if (clos.down[i] != kNoLink) clos.down_known[word] |= bit;
  }
  clos_ = std::move(clos);
}

void FabricView::FindFoldedClos() {
  auto recognized = fabric::RecognizeFoldedClos(topology_, paths_);
  if (!recognized) {
    bundled_clos_ = FindBundledClos(topology_, paths_, leaves_);
    return;
  }
  folded_clos_ = std::move(*recognized);
  for (const NodeId leaf : leaves_) {
    // Switches with NICs are leaves of every folded Clos.
    folded_leaves_.push_back(static_cast<std::uint32_t>(folded_clos_->leaf_of[leaf.Index()]));
  }
}

void FabricView::RefreshTierLinks() {
  const fabric::FoldedClos& clos = *folded_clos_;
  tier_links_.assign(std::size_t{clos.parts} * clos.tiers, {});
  for (const fabric::FoldedClos::Block& block : clos.blocks) {
    if (block.tier == 0) continue;
    TierLinks& tier = tier_links_[std::size_t{block.part} * clos.tiers + block.tier - 1];
    for (std::size_t i = 0; i < std::size_t{block.labels} * block.children; ++i) {
      for (const auto* links : {&clos.up, &clos.down}) {
        const std::int64_t rate = capacities_[(*links)[block.first_link + i]];
        if (rate == 0) {
          tier.all_live = false;
          continue;
        }
        if (tier.rate_bps == 0) tier.rate_bps = rate;
        tier.has_one_rate = tier.has_one_rate && rate == tier.rate_bps;
      }
    }
  }
}

void FabricView::Refresh() {
  for (std::size_t i = 0; i < capacities_.size(); ++i) {
    const DirectedLink hop = DirectedLink::FromIndex(i);
    const fabric::Link& link = topology_.link(hop.link);
    const bool usable = link.state == LinkState::kUp && (hop.forward || !link.directed);
    capacities_[i] = usable ? link.rate.value : 0;
    capacities_bps_[i] = static_cast<double>(capacities_[i]);
  }
  if (clos_) RefreshClos();
  if (folded_clos_) RefreshTierLinks();
}

void FabricView::RefreshClos() {
  Clos& clos = *clos_;
  clos.up_live.assign(clos.up_known.size(), 0);
  clos.down_live.assign(clos.down_known.size(), 0);
  std::int64_t rate = 0;
  clos.equal_rates = true;
  for (std::size_t i = 0; i < clos.up.size(); ++i) {
    const std::size_t word = i / clos.spines * clos.words + i % clos.spines / 64;
    const std::uint64_t bit = std::uint64_t{1} << (i % clos.spines % 64);
    const auto look = [&](std::uint32_t link, std::vector<std::uint64_t>& live) {
      if (link == kNoLink || capacities_[link] == 0) return;
      live[word] |= bit;
      if (rate == 0) rate = capacities_[link];
      clos.equal_rates = clos.equal_rates && capacities_[link] == rate;
    };
    look(clos.up[i], clos.up_live);
    look(clos.down[i], clos.down_live);
  }
}

const CandidatePaths& FabricView::Candidates(std::uint32_t source,
                                             std::uint32_t destination) const {
  auto& entry = candidates_[{source, destination}];
  if (entry) return *entry;
  entry = std::make_unique<CandidatePaths>();
  for (const fabric::Path& path : paths_.Between(leaves_[source], leaves_[destination])) {
    for (const DirectedLink hop : path.hops) {
      entry->hops.push_back(static_cast<std::uint32_t>(hop.Index()));
    }
    entry->hop_begin.push_back(static_cast<std::uint32_t>(entry->hops.size()));
  }
  return *entry;
}

bool FabricView::IsUsable(std::span<const std::uint32_t> hops) const {
  return std::all_of(hops.begin(), hops.end(),
                     [&](std::uint32_t link) { return capacities_[link] > 0; });
}

void FabricView::AppendHops(std::uint32_t source, std::uint32_t destination, std::int32_t path,
                            std::vector<std::uint32_t>& links) const {
  if (source == destination) return;
  if (clos_) {
    const std::uint32_t spine = clos_->SpineOf(source, destination, path);
    links.push_back(clos_->up[std::size_t{source} * clos_->spines + spine]);
    links.push_back(clos_->down[std::size_t{destination} * clos_->spines + spine]);
    return;
  }
  if (folded_clos_) {
    const std::uint32_t from = folded_leaves_[source];
    const std::uint32_t to = folded_leaves_[destination];
    const std::uint32_t common = folded_clos_->CommonBlock(from, to);
    const std::uint32_t label = folded_clos_->LabelOf(from, common, path);
    folded_clos_->AppendLinks(from, to, common, label, links);
    return;
  }
  const auto hops = Candidates(source, destination).Hops(static_cast<std::size_t>(path));
  links.insert(links.end(), hops.begin(), hops.end());
}

}  // namespace espalier::controller
