#include "controller/routing/exact/bundled_paths.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace espalier::controller {

bool BundledPaths::IsRoutable(std::uint32_t source, std::uint32_t destination) const {
  if (source == destination) return false;
  const BundledClos& clos = *view_.bundled_clos();
  if (clos.has_uplinks &&
      (live_.end_rates_bps[source] == 0 || live_.end_rates_bps[destination] == 0)) {
    return false;
  }
  const std::uint32_t from = clos.group_of[source];
  const std::uint32_t to = clos.group_of[destination];
  return from == to || (live_.groups[from].members > 0 && live_.groups[to].members > 0);
}

bool BundledPaths::IsWithin(const Routed& subflow) const {
  const BundledClos& clos = *view_.bundled_clos();
  return clos.group_of[subflow.source] == clos.group_of[subflow.destination];
}

void BundledPaths::ListRouted(std::span<const Commodity> commodities,
                              const Assignment& assignment) {
  routed_.clear();
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    if (!IsRoutable(commodity.source, commodity.destination)) continue;
    for (std::size_t entry = assignment.first[i]; entry < assignment.first[i + 1]; ++entry) {
      routed_.push_back({commodity.source, commodity.destination, entry, {}});
    }
  }
}

void BundledPaths::ChooseSpines() {
  const BundledClos& clos = *view_.bundled_clos();
  edges_.clear();
  for (const Routed& subflow : routed_) {
    if (IsWithin(subflow)) continue;
    edges_.push_back({clos.group_of[subflow.source], clos.group_of[subflow.destination]});
  }
  if (edges_.empty()) return;
  const auto groups = static_cast<std::uint32_t>(clos.groups.size());
  const auto colors =
      coloring_.Color(edges_, groups, groups, static_cast<std::uint32_t>(live_.spines.size()));
  std::size_t edge = 0;
  for (Routed& subflow : routed_) {
    if (!IsWithin(subflow)) subflow.choices.spine = live_.spines[colors[edge++]];
  }
}

void BundledPaths::ChooseLeaves(std::uint32_t group, std::span<const std::uint32_t> sending,
                                std::span<const std::uint32_t> arriving) {
  const BundledClos& clos = *view_.bundled_clos();
  const std::vector<std::uint32_t>& leaves = live_.groups[group].leaves;
  const auto ends = static_cast<std::uint32_t>(clos.groups[group].ends.size());
  const auto nodes = ends + static_cast<std::uint32_t>(live_.spines.size());
  edges_.clear();
  for (const std::uint32_t i : sending) {
    const Routed& subflow = routed_[i];
    const std::uint32_t right = IsWithin(subflow) ? clos.place_of[subflow.destination]
                                                  : ends + place_of_spine_[subflow.choices.spine];
    edges_.push_back({clos.place_of[subflow.source], right});
  }
  for (const std::uint32_t i : arriving) {
    const Routed& subflow = routed_[i];
    edges_.push_back(
        {ends + place_of_spine_[subflow.choices.spine], clos.place_of[subflow.destination]});
  }
  if (edges_.empty()) return;
  const auto colors =
      coloring_.Color(edges_, nodes, nodes, static_cast<std::uint32_t>(leaves.size()));
  std::size_t edge = 0;
  for (const std::uint32_t i : sending) {
    BundledClos::Choices& choices = routed_[i].choices;
    choices.out_leaf = leaves[colors[edge++]];
    if (IsWithin(routed_[i])) choices.in_leaf = choices.out_leaf;
  }
  for (const std::uint32_t i : arriving) routed_[i].choices.in_leaf = leaves[colors[edge++]];
}

void BundledPaths::ChooseAllLeaves() {
  const BundledClos& clos = *view_.bundled_clos();
  if (!clos.has_uplinks) return;  // each group has one leaf
  place_of_spine_.assign(clos.spines, 0);
  for (std::uint32_t place = 0; place < live_.spines.size(); ++place) {
    place_of_spine_[live_.spines[place]] = place;
  }
  std::vector<std::vector<std::uint32_t>> sending(clos.groups.size());
  std::vector<std::vector<std::uint32_t>> arriving(clos.groups.size());
  for (std::uint32_t i = 0; i < routed_.size(); ++i) {
    sending[clos.group_of[routed_[i].source]].push_back(i);
    if (!IsWithin(routed_[i])) arriving[clos.group_of[routed_[i].destination]].push_back(i);
  }
  for (std::uint32_t group = 0; group < clos.groups.size(); ++group) {
    ChooseLeaves(group, sending[group], arriving[group]);
  }
}

std::uint32_t BundledPaths::TakeMember(std::span<const std::uint32_t> links, bool is_upwards) {
  const std::uint32_t flip = is_upwards ? 0 : 1;
  std::uint32_t best = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t member = 0; member < links.size(); ++member) {
    if (view_.capacities()[links[member]] == 0) continue;
    const std::int64_t count = counts_[links[member] ^ flip];
    if (count >= least) continue;
    best = member;
    least = count;
  }
  ++counts_[links[best] ^ flip];
  return best;
}

void BundledPaths::ChooseMembers() {
  const BundledClos& clos = *view_.bundled_clos();
  counts_.assign(view_.capacities().size(), 0);
  for (Routed& subflow : routed_) {
    BundledClos::Choices& choices = subflow.choices;
    if (clos.has_uplinks) {
      choices.out_member = TakeMember(clos.UplinksOf(subflow.source, choices.out_leaf), true);
      choices.in_member = TakeMember(clos.UplinksOf(subflow.destination, choices.in_leaf), false);
    }
    if (IsWithin(subflow)) continue;
    const auto& from = clos.groups[clos.group_of[subflow.source]];
    const auto& to = clos.groups[clos.group_of[subflow.destination]];
    choices.up_member =
        TakeMember(clos.MembersOf(from.first_leaf + choices.out_leaf, choices.spine), true);
    choices.down_member =
        TakeMember(clos.MembersOf(to.first_leaf + choices.in_leaf, choices.spine), false);
  }
}

Load BundledPaths::MaxLoad(std::int64_t share) const {
  Load most;
  for (std::size_t link = 0; link < counts_.size(); ++link) {
    if (counts_[link] == 0) continue;
    most = std::max(most, MakeLoad(view_, counts_[link] * share, view_.capacities()[link]));
  }
  return most;
}

Load BundledPaths::LowerBound(std::int64_t share) const {
  const BundledClos& clos = *view_.bundled_clos();
  std::vector<Degrees> of_end(clos.group_of.size());
  std::vector<Degrees> of_group(clos.groups.size());
  for (const Routed& subflow : routed_) {
    ++of_end[subflow.source].sent;
    ++of_end[subflow.destination].received;
    if (IsWithin(subflow)) continue;
    ++of_group[clos.group_of[subflow.source]].sent;
    ++of_group[clos.group_of[subflow.destination]].received;
  }
  Load bound;
  const auto raise = [&](const Degrees& degrees, std::size_t links, std::int64_t rate) {
    const std::int64_t most = std::max(degrees.sent, degrees.received);
    const auto count = static_cast<std::int64_t>(links);
    if (most > 0)
      bound = std::max(bound, MakeLoad(view_, (most + count - 1) / count * share, rate));
  };
  for (std::size_t end = 0; end < of_end.size() && clos.has_uplinks; ++end) {
    const auto& leaves = live_.groups[clos.group_of[end]].leaves;
    raise(of_end[end], leaves.size() * clos.uplinks, live_.end_rates_bps[end]);
  }
  for (std::size_t group = 0; group < of_group.size(); ++group) {
    const LiveBundles::Group& live = live_.groups[group];
    raise(of_group[group], live_.spines.size() * live.leaves.size() * live.members, live.rate_bps);
  }
  return bound;
}

bool BundledPaths::Assign(std::span<const Commodity> commodities, Assignment& assignment) {
  if (!view_.bundled_clos() || commodities.empty()) return false;
  const std::uint32_t subflows = commodities.front().subflows;
  const bool same_counts = std::ranges::all_of(
      commodities, [&](const Commodity& each) { return each.subflows == subflows; });
  if (!same_counts || commodities.size() > std::numeric_limits<std::int32_t>::max() / subflows) {
    return false;
  }
  auto live = FindLiveBundles(*view_.bundled_clos(), view_.capacities());
  if (!live || live->spines.size() > graph::EdgeColoring::kMaxColors) return false;
  live_ = std::move(*live);
  ListRouted(commodities, assignment);
  ChooseSpines();
  ChooseAllLeaves();
  ChooseMembers();
  for (const Routed& subflow : routed_) {
    assignment.paths[subflow.entry] =
        view_.bundled_clos()->PathOf(subflow.source, subflow.destination, subflow.choices);
  }
  const std::int64_t share = kLoadUnit / subflows;
  assignment.max_load = MaxLoad(share);
  assignment.lower_bound = LowerBound(share);
  assignment.proof = assignment.max_load == assignment.lower_bound ? Proof::kBundles : Proof::kNone;
  return true;
}

}  // namespace espalier::controller
