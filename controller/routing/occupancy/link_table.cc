#include "controller/routing/occupancy/link_table.h"

#include <bit>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

}  // namespace

void LinkTable::Clear() {
  const std::size_t links = view_.capacities().size();
  links_.assign(links, {});
  crowded_.resize(links);
  for (auto& subflows : crowded_) subflows.clear();
  base_.clear();
  clos_ends_.clear();
  rooms_.Reset(view_);
  if (!view_.clos()) return;
  const Clos& clos = *view_.clos();
  clos_ends_.resize(links);
  idle_.Clear();
  leaf_limits_.assign(2 * std::size_t{clos.leaves}, 0);
  single_flow_links_.Reset(clos.leaves, clos.spines);
  for (std::uint32_t leaf = 0; leaf < clos.leaves; ++leaf) {
    for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
      for (const bool sends : {true, false}) {
        const LeafLink end{leaf, spine, sends};
        if (end.LinkIn(clos) != kNoLink) clos_ends_[end.LinkIn(clos)] = end;
      }
    }
  }
}

std::vector<std::int64_t> LinkTable::Loads() const {
  std::vector<std::int64_t> loads;
  loads.reserve(links_.size());
  for (std::size_t link = 0; link < links_.size(); ++link) loads.push_back(LoadOf(link));
  return loads;
}

std::span<const SubflowId> LinkTable::SubflowsOn(std::uint32_t link) const {
  if (single_flow_links_.is_on() && clos_ends_[link].leaf != LeafLink::kNoLeaf) {
    const std::size_t slot = SlotOf(clos_ends_[link]);
    const std::uint16_t peer = single_flow_links_.PeerAt(slot);
    if (peer != SingleFlowLinks::kNotTracked)
      return {&single_flow_links_.SubflowAt(slot), peer == SingleFlowLinks::kIdle ? 0U : 1U};
  }
  const LinkUse& use = links_[link];
  if (use.count > kInlineSubflows) return crowded_[link];
  return std::span(use.subflows).first(use.count);
}

SubflowId CheapestOn(const LinkTable& links, const SubflowTable& subflows, std::uint32_t link,
                     std::int64_t share, std::uint32_t walk) {
  // Bytes in flight are mostly far away in memory, so only the first few subflows are compared.
  constexpr int kMaxCompared = 8;
  SubflowId best = kNoSubflow;
  std::int64_t least = 0;
  int compared = 0;
  const auto on = links.SubflowsOn(link);
  for (const SubflowId subflow : on) {
    const SubflowState& state = subflows[subflow];
    if (state.pinned || state.share != share || state.walk == walk) continue;
    if (++compared > kMaxCompared) break;
    const std::int64_t cost = on.size() == 1 ? 0 : subflows.CostOf(subflow);
    if (best != kNoSubflow && cost >= least) continue;
    best = subflow;
    least = cost;
  }
  return best;
}

void LinkTable::AddTo(std::uint32_t link, SubflowId subflow) {
  LinkUse& use = links_[link];
  use.load += subflows_[subflow].share;
  if (use.count < kInlineSubflows) {
    std::uint32_t at = use.count++;
    for (; at > 0 && use.subflows[at - 1] > subflow; --at) use.subflows[at] = use.subflows[at - 1];
    use.subflows[at] = subflow;
    return;
  }
  std::vector<SubflowId>& all = crowded_[link];
  if (use.count++ == kInlineSubflows) all.assign(use.subflows.begin(), use.subflows.end());
  all.insert(std::lower_bound(all.begin(), all.end(), subflow), subflow);
}

void LinkTable::TakeFrom(std::uint32_t link, SubflowId subflow) {
  LinkUse& use = links_[link];
  use.load -= subflows_[subflow].share;
  if (use.count == 1 && use.subflows[0] == subflow) {
    use.count = 0;
    return;
  }
  SubflowId* const begin =
      use.count > kInlineSubflows ? crowded_[link].data() : use.subflows.data();
  SubflowId* const end = begin + use.count;
  SubflowId* const found = std::find(begin, end, subflow);
  ESPALIER_CHECK(found != end, "subflow={} is not on link={}", subflow.value(), link);
  std::copy(found + 1, end, found);
  --use.count;
  if (use.count < kInlineSubflows) return;
  crowded_[link].pop_back();
  if (use.count > kInlineSubflows) return;
  std::copy(crowded_[link].begin(), crowded_[link].end(), use.subflows.begin());
  crowded_[link].clear();
}

void LinkTable::AddAt(const LeafLink& end, SubflowId subflow) {
  idle_.Set(end, false);
  // A single flow is noted without touching the link's entry, which is far away in memory.
  if (single_flow_links_.is_on()) {
    const std::size_t slot = SlotOf(end);
    const std::uint16_t peer = single_flow_links_.PeerAt(slot);
    const SubflowState& state = subflows_[subflow];
    if (peer == SingleFlowLinks::kIdle && state.share == kLoadUnit) {
      single_flow_links_.Set(slot, end.sends ? state.destination : state.source, subflow);
      return;
    }
    Untrack(end);
  }
  AddTo(end.LinkIn(*view_.clos()), subflow);
}

void LinkTable::Untrack(const LeafLink& end) {
  if (!single_flow_links_.is_on()) return;
  const std::size_t slot = SlotOf(end);
  const std::uint16_t peer = single_flow_links_.PeerAt(slot);
  if (peer == SingleFlowLinks::kNotTracked) return;
  LinkUse& use = links_[end.LinkIn(*view_.clos())];
  use.load = LoadAt(end);
  use.count = peer == SingleFlowLinks::kIdle ? 0 : 1;
  use.subflows[0] = single_flow_links_.SubflowAt(slot);
  single_flow_links_.SetNotTracked(slot);
}

void LinkTable::Track(const LeafLink& end) {
  const LinkUse& use = links_[end.LinkIn(*view_.clos())];
  const bool is_idle = use.count == 0 && use.load == 0;
  idle_.Set(end, is_idle);
  if (!single_flow_links_.is_on() || use.count > 1) return;
  const SubflowId other = use.subflows[0];
  if (is_idle) {
    single_flow_links_.SetIdle(SlotOf(end));
  } else if (use.count == 1 && use.load == kLoadUnit && subflows_[other].share == kLoadUnit) {
    const SubflowState& state = subflows_[other];
    single_flow_links_.Set(SlotOf(end), end.sends ? state.destination : state.source, other);
  }
}

void LinkTable::TakeAt(const LeafLink& end, SubflowId subflow) {
  const std::size_t slot = SlotOf(end);
  if (single_flow_links_.is_on() &&
      single_flow_links_.PeerAt(slot) != SingleFlowLinks::kNotTracked) {
    ESPALIER_CHECK(single_flow_links_.SubflowAt(slot) == subflow, "subflow={} instead of {}",
                   single_flow_links_.SubflowAt(slot).value(), subflow.value());
    single_flow_links_.SetIdle(slot);
    idle_.Set(end, true);
    return;
  }
  TakeFrom(end.LinkIn(*view_.clos()), subflow);
  Track(end);
}

void LinkTable::SetBaseLoads(std::span<const std::int64_t> units) {
  for (std::uint32_t link = 0; link < links_.size(); ++link) {
    const std::int64_t now = units.empty() ? 0 : units[link];
    if (now == BaseOf(link)) continue;
    const bool is_leaf_link = !clos_ends_.empty() && clos_ends_[link].leaf != LeafLink::kNoLeaf;
    if (is_leaf_link) Untrack(clos_ends_[link]);
    links_[link].load += now - BaseOf(link);
    if (is_leaf_link) Track(clos_ends_[link]);
    rooms_.Note(*this, link);
  }
  const bool is_any = std::any_of(units.begin(), units.end(), [](auto load) { return load > 0; });
  base_.assign(units.begin(), is_any ? units.end() : units.begin());
}

void LinkTable::Put(SubflowId subflow, std::int32_t route) {
  if (route < 0) return;
  const SubflowState& state = subflows_[subflow];
  if (!clos_ends_.empty()) {
    for (const LeafLink& end : EndsOf(state, route)) AddAt(end, subflow);
    return;
  }
  for (const std::uint32_t link : subflows_.LinksOf(state, route)) {
    AddTo(link, subflow);
    rooms_.Note(*this, link);
  }
}

void LinkTable::Lift(SubflowId subflow, std::int32_t route) {
  if (route < 0) return;
  const SubflowState& state = subflows_[subflow];
  if (!clos_ends_.empty()) {
    for (const LeafLink& end : EndsOf(state, route)) TakeAt(end, subflow);
    return;
  }
  for (const std::uint32_t link : subflows_.LinksOf(state, route)) {
    TakeFrom(link, subflow);
    rooms_.Note(*this, link);
  }
}

void LinkTable::MoveTo(SubflowId subflow, std::int32_t route) {
  Lift(subflow, subflows_[subflow].route);
  subflows_[subflow].route = route;
  Put(subflow, route);
}

void LinkTable::SetShare(SubflowId subflow, std::int64_t share) {
  const std::int32_t route = subflows_[subflow].route;
  Lift(subflow, route);
  subflows_[subflow].share = share;
  Put(subflow, route);
}

void LinkTable::SetLimits(const Load& load, Bound bound) {
  const auto capacities = view_.capacities();
  const Wide denominator = Wide{load.denominator} * view_.unit_bps();
  for (std::size_t link = 0; link < links_.size(); ++link) {
    const Wide units = Wide{load.numerator} * kLoadUnit * capacities[link];
    const Wide limit =
        bound == Bound::kAtMost ? units / denominator : (units + denominator - 1) / denominator - 1;
    const auto index = static_cast<std::uint32_t>(link);
    // A base load alone is no reason to relieve a link.
    SetLimit(index, std::max(static_cast<std::int64_t>(std::max(limit, Wide{0})), BaseOf(index)));
  }
}

void LinkTable::SetLimit(std::uint32_t link, std::int64_t units) {
  links_[link].limit = units;
  rooms_.Note(*this, link);
  if (view_.capacities()[link] == 0 || clos_ends_.empty()) return;
  const LeafLink& end = clos_ends_[link];
  if (end.leaf != LeafLink::kNoLeaf) leaf_limits_[LeafSide(end.leaf, end.sends)] = units;
}

std::size_t LinkTable::PutOnIdle(std::span<const SubflowId> subflows, SubflowMove* moves) {
  const Clos& clos = *view_.clos();
  const std::uint32_t words = clos.words;
  const bool path_is_spine = clos.all_known;
  const std::uint32_t source = subflows_[subflows.front()].source;
  const std::size_t up_row = single_flow_links_.RowOf(source, true);
  const std::uint64_t* const up_live = &clos.up_live[std::size_t{source} * words];
  const std::uint64_t* const down_live = clos.down_live.data();
  std::uint64_t* const idle_up = idle_.WordsOf(source, true);
  std::uint64_t* const idle_down = idle_.WordsOf(0, false);
  SubflowState* const states = &subflows_[SubflowId(0)];
  SubflowMove* next = moves;
  for (const SubflowId subflow : subflows) {
    SubflowState& state = states[subflow.Index()];
    const std::size_t row = std::size_t{state.destination} * words;
    std::uint64_t idle = 0;
    std::uint32_t word = 0;
    while (word < words) {
      idle = idle_up[word] & up_live[word] & idle_down[row + word] & down_live[row + word];
      if (idle != 0) break;
      ++word;
    }
    if (idle == 0) continue;
    const std::uint32_t spine = 64 * word + static_cast<std::uint32_t>(std::countr_zero(idle));
    state.route = static_cast<std::int32_t>(spine);
    if (single_flow_links_.is_on() && state.share == kLoadUnit) {
      // As Put, without its checks: both links are known to be idle.
      const std::uint64_t lowest = idle & -idle;
      idle_up[word] ^= lowest;
      idle_down[row + word] ^= lowest;
      single_flow_links_.Set(up_row + spine, state.destination, subflow);
      single_flow_links_.Set(SlotOf({state.destination, spine, false}), source, subflow);
    } else {
      Put(subflow, state.route);
    }
    *next++ = {subflow, kNoPath,
               path_is_spine ? state.route : subflows_.ToPath(state, state.route)};
  }
  return static_cast<std::size_t>(next - moves);
}

}  // namespace espalier::controller
