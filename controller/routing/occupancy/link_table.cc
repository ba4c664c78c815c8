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
  for (auto& ways : crowded_) ways.clear();
  clos_ends_.clear();
  if (!view_.clos()) return;
  const Clos& clos = *view_.clos();
  clos_ends_.resize(links);
  idle_.Clear();
  leaf_limits_.assign(2 * std::size_t{clos.leaves}, 0);
  sole_.Reset(clos.leaves, clos.spines);
  for (std::uint32_t leaf = 0; leaf < clos.leaves; ++leaf) {
    for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
      for (const bool sends : {true, false}) {
        const ClosEnd end{leaf, spine, sends};
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

std::span<const WayId> LinkTable::WaysOn(std::uint32_t link) const {
  if (sole_.is_on() && clos_ends_[link].leaf != ClosEnd::kNoLeaf) {
    const std::size_t slot = SlotOf(clos_ends_[link]);
    const std::uint16_t peer = sole_.PeerAt(slot);
    if (peer != SoleWays::kNotHere) return {&sole_.WayAt(slot), peer == SoleWays::kIdle ? 0U : 1U};
  }
  const LinkUse& use = links_[link];
  if (use.count > kInlineWays) return crowded_[link];
  return std::span(use.ways).first(use.count);
}

void LinkTable::AddTo(std::uint32_t link, WayId way) {
  LinkUse& use = links_[link];
  use.load += ways_[way].share;
  if (use.count < kInlineWays) {
    std::uint32_t at = use.count++;
    for (; at > 0 && use.ways[at - 1] > way; --at) use.ways[at] = use.ways[at - 1];
    use.ways[at] = way;
    return;
  }
  std::vector<WayId>& all = crowded_[link];
  if (use.count++ == kInlineWays) all.assign(use.ways.begin(), use.ways.end());
  all.insert(std::lower_bound(all.begin(), all.end(), way), way);
}

void LinkTable::TakeFrom(std::uint32_t link, WayId way) {
  LinkUse& use = links_[link];
  use.load -= ways_[way].share;
  if (use.count == 1 && use.ways[0] == way) {
    use.count = 0;
    return;
  }
  WayId* const begin = use.count > kInlineWays ? crowded_[link].data() : use.ways.data();
  WayId* const end = begin + use.count;
  WayId* const found = std::find(begin, end, way);
  ESPALIER_CHECK(found != end, "way={} link={}", way.value(), link);
  std::copy(found + 1, end, found);
  --use.count;
  if (use.count < kInlineWays) return;
  crowded_[link].pop_back();
  if (use.count > kInlineWays) return;
  std::copy(crowded_[link].begin(), crowded_[link].end(), use.ways.begin());
  crowded_[link].clear();
}

void LinkTable::AddAt(const ClosEnd& end, WayId way) {
  idle_.Set(end, false);
  // (A sole way is noted without a look at the link, which is far away in memory.)
  if (sole_.is_on()) {
    const std::size_t slot = SlotOf(end);
    const std::uint16_t peer = sole_.PeerAt(slot);
    const WayState& state = ways_[way];
    if (peer == SoleWays::kIdle && state.share == kLoadUnit) {
      sole_.Set(slot, end.sends ? state.destination : state.source, way);
      return;
    }
    if (peer != SoleWays::kNotHere) {
      LinkUse& use = links_[end.LinkIn(*view_.clos())];
      use.load = LoadAt(end);
      use.count = peer == SoleWays::kIdle ? 0 : 1;
      use.ways[0] = sole_.WayAt(slot);
      sole_.SetNotHere(slot);
    }
  }
  AddTo(end.LinkIn(*view_.clos()), way);
}

void LinkTable::TakeAt(const ClosEnd& end, WayId way) {
  const std::size_t slot = SlotOf(end);
  if (sole_.is_on() && sole_.PeerAt(slot) != SoleWays::kNotHere) {
    ESPALIER_CHECK(sole_.WayAt(slot) == way, "way={} instead of {}", sole_.WayAt(slot).value(),
                   way.value());
    sole_.SetIdle(slot);
    idle_.Set(end, true);
    return;
  }
  const std::uint32_t link = end.LinkIn(*view_.clos());
  TakeFrom(link, way);
  const LinkUse& use = links_[link];
  idle_.Set(end, use.count == 0);
  if (!sole_.is_on() || use.count > 1) return;
  const WayId other = use.ways[0];
  if (use.count == 0) {
    sole_.SetIdle(slot);
  } else if (const WayState& state = ways_[other]; state.share == kLoadUnit) {
    sole_.Set(slot, end.sends ? state.destination : state.source, other);
  }
}

void LinkTable::Put(WayId way, std::int32_t route) {
  if (route < 0) return;
  const WayState& state = ways_[way];
  if (state.candidates == nullptr) {
    for (const ClosEnd& end : EndsOf(state, route)) AddAt(end, way);
    return;
  }
  for (const std::uint32_t link : ways_.LinksOf(state, route)) AddTo(link, way);
}

void LinkTable::Lift(WayId way, std::int32_t route) {
  if (route < 0) return;
  const WayState& state = ways_[way];
  if (state.candidates == nullptr) {
    for (const ClosEnd& end : EndsOf(state, route)) TakeAt(end, way);
    return;
  }
  for (const std::uint32_t link : ways_.LinksOf(state, route)) TakeFrom(link, way);
}

void LinkTable::MoveTo(WayId way, std::int32_t route) {
  Lift(way, ways_[way].route);
  ways_[way].route = route;
  Put(way, route);
}

void LinkTable::SetShare(WayId way, std::int64_t share) {
  const std::int32_t route = ways_[way].route;
  Lift(way, route);
  ways_[way].share = share;
  Put(way, route);
}

void LinkTable::SetLimits(const Load& load, Bound bound) {
  const auto capacities = view_.capacities();
  const Wide denominator = Wide{load.denominator} * view_.unit_bps();
  for (std::size_t link = 0; link < links_.size(); ++link) {
    const Wide units = Wide{load.numerator} * kLoadUnit * capacities[link];
    const Wide limit =
        bound == Bound::kAtMost ? units / denominator : (units + denominator - 1) / denominator - 1;
    SetLimit(static_cast<std::uint32_t>(link), static_cast<std::int64_t>(std::max(limit, Wide{0})));
  }
}

void LinkTable::SetLimit(std::uint32_t link, std::int64_t units) {
  links_[link].limit = units;
  if (view_.capacities()[link] == 0 || clos_ends_.empty()) return;
  const ClosEnd& end = clos_ends_[link];
  if (end.leaf != ClosEnd::kNoLeaf) leaf_limits_[LeafSide(end.leaf, end.sends)] = units;
}

std::size_t LinkTable::PutOnIdle(std::span<const WayId> ways, WayMove* moves) {
  const Clos& clos = *view_.clos();
  const std::uint32_t words = clos.words;
  const bool path_is_spine = clos.all_known;
  const std::uint32_t source = ways_[ways.front()].source;
  const std::size_t up_row = sole_.RowOf(source, true);
  const std::uint64_t* const up_live = &clos.up_live[std::size_t{source} * words];
  const std::uint64_t* const down_live = clos.down_live.data();
  std::uint64_t* const idle_up = idle_.WordsOf(source, true);
  std::uint64_t* const idle_down = idle_.WordsOf(0, false);
  WayState* const states = &ways_[WayId(0)];
  WayMove* next = moves;
  for (const WayId way : ways) {
    WayState& state = states[way.Index()];
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
    if (sole_.is_on() && state.share == kLoadUnit) {
      // What Put does, where all that it would find is known.
      const std::uint64_t lowest = idle & -idle;
      idle_up[word] ^= lowest;
      idle_down[row + word] ^= lowest;
      sole_.Set(up_row + spine, state.destination, way);
      sole_.Set(SlotOf({state.destination, spine, false}), source, way);
    } else {
      Put(way, state.route);
    }
    *next++ = {way, kNoPath, path_is_spine ? state.route : ways_.ToPath(state, state.route)};
  }
  return static_cast<std::size_t>(next - moves);
}

}  // namespace espalier::controller
