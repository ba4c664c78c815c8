#include "controller/placement/failures/standbys.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "controller/paths/models/path_reach.h"

namespace espalier::controller {

// Problem: a host that leaves a dead path alone does not know which of the others is free, and
// hosts that leave the same link meet on another one.
// Idea: agree beforehand where each of them goes. ShiftLoads counts, for every failure, what it
// would shift to each link, and each standby is chosen where that and the present load are least.
// Choosing one at a time is enough: flows of one failure domain have as many choices as there are
// other paths, and the counts keep them apart.
// Invariant: `counted_` holds what `shifts_` counts. An entry whose flow has closed, or is another
// one by now, is taken out at the next visit of its slot.
// Cost: a visit compares a few numbers, and looks up one port in the path map.

namespace {

constexpr std::size_t kTicksForAll = 10;
constexpr std::size_t kFewestVisits = 64;
constexpr std::size_t kMostChoices = 512;  // in one tick
constexpr std::size_t kMostPaths = 64;     // that one choice compares

}  // namespace

Standbys::Standbys(const State& state, FlowDecisions& decisions, PortBinder& ports,
                   Metrics& metrics)
    : state_(state),
      decisions_(decisions),
      ports_(ports),
      shifts_(state.topology),
      chosen_(metrics.MakeCounter("espalier_standby_paths_chosen_total",
                                  "Standby paths chosen for paths of flows")) {}

void Standbys::Tick() {
  const std::size_t slots = std::max(state_.flows.slot_count(), counted_.size());
  counted_.resize(slots);
  choices_left_ = kMostChoices;
  const std::size_t visits = std::min(slots, std::max(kFewestVisits, slots / kTicksForAll + 1));
  for (std::size_t i = 0; i < visits && choices_left_ > 0; ++i) {
    next_ = next_ + 1 < slots ? next_ + 1 : 0;
    Visit(FlowSlot(static_cast<std::uint32_t>(next_)));
  }
}

std::int64_t Standbys::ShiftedBy(const Flow& flow, const Subflow& subflow) {
  return flow.is_answering ? 0 : ShareOf(flow, subflow);
}

bool Standbys::MayHaveStandbys(FlowSlot slot) const {
  const Flow& flow = state_.flows.At(slot);
  return decisions_.MayMove(slot, Mover::kStandby) && state_.agents.At(flow.agent).Has("standby") &&
         state_.HasPaths(flow);
}

void Standbys::Visit(FlowSlot slot) {
  std::vector<Counted>& counted = counted_[slot.Index()];
  const bool is_open = slot.Index() < state_.flows.slot_count() && state_.flows.IsOpen(slot);
  const Flow* const flow = is_open ? &state_.flows.At(slot) : nullptr;
  const bool is_same = flow != nullptr && !counted.empty() &&
                       counted.front().agent == flow->agent && counted.front().local == flow->local;
  const bool may_have = flow != nullptr && MayHaveStandbys(slot);
  if (!is_same || !may_have) {
    for (Counted& one : counted) TakeOut(one);
    counted.clear();
  }
  if (flow == nullptr) return;
  if (!may_have) {
    for (std::uint32_t i = 0; i < flow->subflows.size(); ++i) Take(slot, i, kNoPath);
    return;
  }
  counted.resize(flow->subflows.size(), {.agent = flow->agent, .local = flow->local});
  bool has_chosen = false;
  for (std::uint32_t i = 0; i < flow->subflows.size(); ++i) {
    const Subflow& subflow = flow->subflows[i];
    if (Fits(*flow, subflow, counted[i])) {
      // Its port may not have been known before, or may take another path by now.
      if (ports_.BindStandby(slot, i)) decisions_.ports().PushStandbys(slot);
      continue;
    }
    TakeOut(counted[i]);
    has_chosen = true;
    const std::int32_t path = state_.flow_paths.PathOf(subflow)->value();
    Counted& added = counted[i];
    added.source = *state_.view.LeafOf(flow->source_leaf);
    added.destination = *state_.view.LeafOf(flow->destination_leaf);
    added.path = path;
    added.back = ReturnOf(*flow, subflow);
    added.share = ShiftedBy(*flow, subflow);
    const std::int32_t standby = Choose(*flow, added, slot.Index() + i);
    if (choices_left_ > 0) --choices_left_;
    Take(slot, i, standby);
    if (standby == kNoPath) continue;
    chosen_.Add();
    added.standby = standby;
    shifts_.Add(MoveOf(added, path_hops_, back_hops_, hops_));
  }
  if (has_chosen) ports_.AskReturns(slot);
}

bool Standbys::Fits(const Flow& flow, const Subflow& subflow, const Counted& counted) const {
  const auto path = state_.flow_paths.PathOf(subflow);
  return counted.standby != kNoPath && subflow.standby_path == counted.standby &&
         path->value() == counted.path && counted.share == ShiftedBy(flow, subflow) &&
         counted.back == ReturnOf(flow, subflow) &&
         fabric::IsUsable(state_.topology,
                          state_.PathsOf(flow)[static_cast<std::size_t>(counted.standby)]);
}

std::int32_t Standbys::ReturnOf(const Flow& flow, const Subflow& subflow) const {
  const auto back = ports_.returns().Of(flow, subflow.port);
  return back ? back->value() : kNoPath;
}

std::int32_t Standbys::Choose(const Flow& flow, const Counted& counted, std::size_t first) {
  const auto own = HopsOf(counted, counted.path, path_hops_);
  const auto back = BackHopsOf(counted, back_hops_);
  const auto all = state_.PathsOf(flow);
  const std::size_t paths = all.size();
  const auto unreachable = FindUnreachable(state_.path_map, flow.key, all);
  std::int32_t best = kNoPath;
  std::tuple<std::size_t, double, double> least;  // common failures, busiest link, sum
  for (std::size_t i = 0; i < std::min(paths, kMostPaths); ++i) {
    // Where not all are compared, flows begin at different ones.
    const auto candidate = static_cast<std::int32_t>(paths <= kMostPaths ? i : (first + i) % paths);
    if (candidate == counted.path) continue;
    const auto hops = HopsOf(counted, candidate, hops_);
    if (!state_.view.IsUsable(hops)) continue;
    if (std::ranges::binary_search(unreachable, fabric::PathIndex(candidate))) continue;
    double busiest = 0;
    double sum = 0;
    for (const std::uint32_t link : hops) {
      const std::int64_t shifted = std::max(shifts_.MostOn(link, own), shifts_.MostOn(link, back));
      const std::int64_t units =
          state_.flow_paths.assigner().LoadOf(link) + shifted + counted.share;
      busiest = std::max(busiest, Loaded(link, units));
      sum += Loaded(link, units);
    }
    const std::size_t common = shifts_.CountCommon(own, hops) + shifts_.CountCommon(back, hops);
    const std::tuple cost(common, busiest, sum);
    if (best == kNoPath || cost < least) {
      best = candidate;
      least = cost;
    }
  }
  return best;
}

void Standbys::Take(FlowSlot slot, std::uint32_t index, std::int32_t standby) {
  const std::int32_t present = state_.flows.At(slot).subflows[index].standby_path;
  if (present == kNoPath && standby == kNoPath) return;
  decisions_.ports().SetStandby(slot, index, standby);
  if (standby != kNoPath) ports_.BindStandby(slot, index);
  decisions_.ports().PushStandbys(slot);
}

void Standbys::TakeOut(Counted& counted) {
  if (counted.standby == kNoPath) return;
  shifts_.Remove(MoveOf(counted, path_hops_, back_hops_, hops_));
  counted.standby = kNoPath;
}

std::span<const std::uint32_t> Standbys::HopsOf(const Counted& counted, std::int32_t path,
                                                std::vector<std::uint32_t>& hops) const {
  hops.clear();
  state_.view.AppendHops(counted.source, counted.destination, path, hops);
  return hops;
}

std::span<const std::uint32_t> Standbys::BackHopsOf(const Counted& counted,
                                                    std::vector<std::uint32_t>& hops) const {
  hops.clear();
  if (counted.back != kNoPath) {
    state_.view.AppendHops(counted.destination, counted.source, counted.back, hops);
  }
  return hops;
}

ShiftLoads::Move Standbys::MoveOf(const Counted& counted, std::vector<std::uint32_t>& path,
                                  std::vector<std::uint32_t>& back,
                                  std::vector<std::uint32_t>& standby) const {
  return {.path = HopsOf(counted, counted.path, path),
          .back = BackHopsOf(counted, back),
          .standby = HopsOf(counted, counted.standby, standby),
          .share = counted.share};
}

double Standbys::Loaded(std::uint32_t link, std::int64_t units) const {
  const auto capacity = static_cast<double>(state_.view.capacities()[link]);
  if (capacity == 0) return 0;
  const auto relative = capacity / static_cast<double>(state_.view.unit_bps());
  return static_cast<double>(units) / static_cast<double>(kLoadUnit) / relative;
}

Standbys::Worst Standbys::WorstFailure() const {
  Worst worst;
  const OnlineAssigner& now = state_.flow_paths.assigner();
  shifts_.ForEach([&](LinkOrSwitch failure, std::uint32_t link, ShiftLoads::Shift shift) {
    if (shift.Units() <= 0) return;
    const double load = Loaded(link, now.LoadOf(link) + shift.Units());
    if (worst.failure && load <= worst.load) return;
    worst = {failure, link, load};
  });
  // The failure of one link of a switch may relieve fewer links, but adds no more to any.
  std::vector<std::vector<fabric::NodeId>> switches(state_.view.capacities().size());
  bool has_one = false;
  shifts_.ForEach([&](LinkOrSwitch failure, std::uint32_t link, ShiftLoads::Shift shift) {
    const double most = Loaded(link, now.LoadOf(link) + shift.added);
    if (shift.relieved == 0 || failure.IsLink() || (worst.failure && most <= worst.load)) return;
    switches[link].push_back(failure.node());
    has_one = true;
  });
  if (has_one) CompareLinks(switches, worst);
  return worst;
}

void Standbys::CompareLinks(const std::vector<std::vector<fabric::NodeId>>& switches,
                            Worst& worst) const {
  const auto failed_by = [](std::uint32_t hop) {
    return fabric::DirectedLink::FromIndex(hop).link;
  };
  const auto has = [&](std::span<const std::uint32_t> path, fabric::LinkId link) {
    return std::ranges::find(path, link, failed_by) != path.end();
  };
  std::map<std::pair<fabric::LinkId, std::uint32_t>, std::int64_t> shifted;  // by failure and link
  std::vector<std::uint32_t> path_hops;
  std::vector<std::uint32_t> back_hops;
  std::vector<std::uint32_t> standby_hops;
  for (const std::vector<Counted>& flow : counted_) {
    for (const Counted& counted : flow) {
      if (counted.standby == kNoPath || counted.share == 0) continue;
      const auto move = MoveOf(counted, path_hops, back_hops, standby_hops);
      const auto count = [&](fabric::LinkId failed) {
        if (has(move.standby, failed)) return;
        const fabric::Link& ends = state_.topology.link(failed);
        const auto is_of_end = [&](fabric::NodeId node) {
          return node == ends.a || node == ends.b;
        };
        for (const std::uint32_t link : move.standby) {
          if (std::ranges::any_of(switches[link], is_of_end)) shifted[{failed, link}] += move.share;
        }
        for (const std::uint32_t link : move.path) {
          if (failed_by(link) == failed || std::ranges::none_of(switches[link], is_of_end))
            continue;
          shifted[{failed, link}] -= move.share;
        }
      };
      for (const std::uint32_t hop : move.path) count(failed_by(hop));
      for (const std::uint32_t hop : move.back) {
        if (!has(move.path, failed_by(hop))) count(failed_by(hop));
      }
    }
  }
  for (const auto& [where, units] : shifted) {
    const auto [failed, link] = where;
    const double load = Loaded(link, state_.flow_paths.assigner().LoadOf(link) + units);
    if (units <= 0 || (worst.failure && load <= worst.load)) continue;
    worst = {LinkOrSwitch::Link(failed), link, load};
  }
}

}  // namespace espalier::controller
