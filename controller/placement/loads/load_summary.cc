#include "controller/placement/loads/load_summary.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "controller/paths/models/path_reach.h"
#include "controller/routing/bounds/load_bounds.h"
#include "controller/routing/bounds/standing_proof.h"
#include "controller/routing/exact/share_balancer.h"

namespace espalier::controller {
namespace {

std::vector<std::int64_t> BaseLoads(const State& state) {
  const auto background = state.flow_paths.assigner().base_loads();
  std::vector<std::int64_t> loads(background.begin(), background.end());
  loads.resize(state.view.capacities().size());
  for (const auto& [name, edge] : state.edges.all()) {
    for (const fabric::DirectedLink hop : state.PathOf(edge).hops) loads[hop.Index()] += edge.load;
  }
  return loads;
}

// The base loads of links that the view shows as usable.
std::vector<std::int64_t> UsableBaseLoads(const FabricView& view, const Elephants& elephants) {
  std::vector<std::int64_t> loads = elephants.base_loads;
  for (std::size_t link = 0; link < loads.size(); ++link) {
    if (view.capacities()[link] == 0) loads[link] = 0;
  }
  return loads;
}

Elephants DescribeLoad(const State& state) {
  std::vector<FlowSlot> slots = state.flows.All();
  std::erase_if(slots,
                [&](FlowSlot slot) { return !CountsInSummary(state, state.flows.At(slot), slot); });
  return DescribeElephants(state, slots);
}

// Adds what the elephant puts on the links of its paths.
void AddLoads(const FabricView& view, const Elephants& elephants, const Assignment& paths,
              std::size_t index, std::vector<std::int64_t>& loads) {
  const Commodity& commodity = elephants.commodities[index];
  std::vector<std::uint32_t> hops;
  for (std::size_t entry = paths.first[index]; entry < paths.first[index + 1]; ++entry) {
    if (paths.paths[entry] == kNoPath) continue;
    hops.clear();
    view.AppendHops(commodity.source, commodity.destination, paths.paths[entry], hops);
    for (const std::uint32_t link : hops) loads[link] += paths.ShareOf(commodity, entry);
  }
}

// The elephants of each phase of each job, and those that are in none.
struct Phased {
  std::vector<std::vector<std::vector<std::size_t>>> jobs;
  std::vector<std::size_t> others;
};

Phased GroupByPhases(const State& state, const Elephants& elephants) {
  Phased phased;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const auto places = state.phases.Of(elephants.slots[i]);
    if (places.empty()) phased.others.push_back(i);
    for (const FlowPhases::Place& place : places) {
      if (place.job >= phased.jobs.size()) phased.jobs.resize(place.job + 1);
      auto& phases = phased.jobs[place.job];
      if (place.phase >= phases.size()) phases.resize(place.phase + 1);
      phases[place.phase].push_back(i);
    }
  }
  return phased;
}

// The elephants at these places alone, and their paths.
std::pair<Elephants, Assignment> Select(const Elephants& elephants, const Assignment& paths,
                                        std::span<const std::size_t> places) {
  Elephants some;
  Assignment of_some;
  some.base_loads = elephants.base_loads;
  of_some.first.push_back(0);
  for (const std::size_t i : places) {
    some.slots.push_back(elephants.slots[i]);
    some.commodities.push_back(elephants.commodities[i]);
    some.can_move.push_back(elephants.can_move[i]);
    some.is_rigid.push_back(elephants.is_rigid[i]);
    for (std::size_t entry = paths.first[i]; entry < paths.first[i + 1]; ++entry) {
      of_some.paths.push_back(paths.paths[entry]);
      if (!paths.shares.empty()) of_some.shares.push_back(paths.shares[entry]);
    }
    of_some.first.push_back(static_cast<std::uint32_t>(of_some.paths.size()));
  }
  return {std::move(some), std::move(of_some)};
}

// Any phases of different jobs may meet, so what bounds one meeting bounds the busiest load. Tries
// for each job the phase with the most flows, and each phase of all jobs in turn.
Load BusiestBound(const State& state, const FabricView& view, const Elephants& elephants,
                  const Assignment& paths) {
  if (state.phases.IsEmpty()) return LowerBoundOf(view, elephants, paths);
  const Phased phased = GroupByPhases(state, elephants);
  std::vector<std::size_t> largest;  // phase of each job
  std::size_t most = 1;
  for (const auto& phases : phased.jobs) {
    const auto at = std::ranges::max_element(phases, {}, &std::vector<std::size_t>::size);
    largest.push_back(static_cast<std::size_t>(at - phases.begin()));
    most = std::max(most, phases.size());
  }
  constexpr std::size_t kMostTried = 16;
  Load bound;
  for (std::size_t phase = 0; phase <= std::min(most, kMostTried); ++phase) {
    std::vector<std::size_t> meeting = phased.others;
    for (std::size_t job = 0; job < phased.jobs.size(); ++job) {
      const auto& phases = phased.jobs[job];
      if (phases.empty()) continue;
      const std::size_t chosen = phase == 0 || phase > phases.size() ? largest[job] : phase - 1;
      meeting.insert(meeting.end(), phases[chosen].begin(), phases[chosen].end());
    }
    const auto [some, of_some] = Select(elephants, paths, meeting);
    bound = std::max(bound, LowerBoundOf(view, some, of_some));
  }
  return bound;
}

}  // namespace

Elephants DescribeElephants(const State& state, std::span<const FlowSlot> slots) {
  const auto link_of = [&](fabric::NodeId nic, bool sends) {
    const auto attachment = state.paths.FindAttachment(nic);
    return HostLink(sends ? attachment->uplink : attachment->Downlink());
  };
  Elephants elephants;
  elephants.base_loads = BaseLoads(state);
  for (const FlowSlot slot : slots) {
    const Flow& flow = state.flows.At(slot);
    if (flow.subflows.empty()) continue;
    elephants.slots.push_back(slot);
    elephants.can_move.push_back(state.decisions.MayMove(slot, Mover::kOperator));
    elephants.is_rigid.push_back(flow.KeepsWeights() && flow.subflows.size() > 1 ? 0 : 1);
    elephants.commodities.push_back({.source = *state.view.LeafOf(flow.source_leaf),
                                     .destination = *state.view.LeafOf(flow.destination_leaf),
                                     .job = flow.job,
                                     .subflows = static_cast<std::uint32_t>(flow.subflows.size()),
                                     .source_link = link_of(flow.key.source, true),
                                     .destination_link = link_of(flow.key.destination, false)});
  }
  return elephants;
}

Assignment CurrentPaths(const State& state, const Elephants& elephants) {
  Assignment assignment;
  assignment.first.push_back(0);
  bool are_equal = true;
  for (const FlowSlot slot : elephants.slots) {
    const Flow& flow = state.flows.At(slot);
    for (const Subflow& subflow : flow.subflows) {
      const auto path = state.flow_paths.PathOf(subflow);
      assignment.paths.push_back(path ? path->value() : kNoPath);
      assignment.shares.push_back(ShareOf(flow, subflow));
      are_equal = are_equal && subflow.share == 0;
    }
    assignment.first.push_back(static_cast<std::uint32_t>(assignment.paths.size()));
  }
  if (are_equal) assignment.shares.clear();
  assignment.max_load = MaxLoadOf(state.view, elephants, assignment);
  return assignment;
}

Load MaxLoadOf(const FabricView& view, const Elephants& elephants, const Assignment& paths) {
  return MaxLoadWith(view, elephants.commodities, elephants.base_loads, paths);
}

Load LowerBoundOf(const FabricView& view, const Elephants& elephants, const Assignment& paths) {
  std::vector<std::int64_t> base = UsableBaseLoads(view, elephants);
  std::vector<Commodity> movable;
  std::vector<std::uint32_t> hops;
  for (std::size_t i = 0; i < elephants.commodities.size(); ++i) {
    const Commodity& commodity = elephants.commodities[i];
    if (elephants.can_move[i]) {
      movable.push_back(commodity);
      continue;
    }
    for (std::size_t entry = paths.first[i]; entry < paths.first[i + 1]; ++entry) {
      const std::int32_t path = paths.paths[entry];
      if (path == kNoPath) continue;
      hops.clear();
      view.AppendHops(commodity.source, commodity.destination, path, hops);
      for (const std::uint32_t link : hops) {
        if (view.capacities()[link] > 0) base[link] += paths.ShareOf(commodity, entry);
      }
    }
  }
  const bool may_be_uneven = elephants.MayBeUneven() || !paths.shares.empty();
  return std::max(ComputeLowerBound(view, movable, base, may_be_uneven ? 1 : 0),
                  ComputeMaxLoad(view, base));
}

std::vector<std::int32_t> FixedPathsOf(const Elephants& elephants, const Assignment& paths) {
  if (std::ranges::find(elephants.can_move, false) == elephants.can_move.end()) return {};
  std::vector<std::int32_t> fixed = paths.paths;
  for (std::size_t i = 0; i < elephants.commodities.size(); ++i) {
    if (!elephants.can_move[i]) continue;
    std::fill(fixed.begin() + paths.first[i], fixed.begin() + paths.first[i + 1], kNoPath);
  }
  return fixed;
}

bool CountsInSummary(const State& state, const Flow& flow, FlowSlot slot) {
  const bool is_counted = !flow.is_parked || !state.phases.Of(slot).empty();
  return is_counted && !flow.is_answering && state.HasPaths(flow);
}

std::vector<std::int64_t> BusiestLoads(const State& state, const FabricView& view,
                                       const Elephants& elephants, const Assignment& paths) {
  const Phased phased = GroupByPhases(state, elephants);
  std::vector<std::int64_t> loads = UsableBaseLoads(view, elephants);
  for (const std::size_t i : phased.others) AddLoads(view, elephants, paths, i, loads);
  for (const auto& phases : phased.jobs) {
    std::vector<std::int64_t> peaks(loads.size());
    for (const std::vector<std::size_t>& phase : phases) {
      std::vector<std::int64_t> alone(loads.size());
      for (const std::size_t i : phase) AddLoads(view, elephants, paths, i, alone);
      for (std::size_t link = 0; link < peaks.size(); ++link) {
        peaks[link] = std::max(peaks[link], alone[link]);
      }
    }
    for (std::size_t link = 0; link < peaks.size(); ++link) loads[link] += peaks[link];
  }
  for (std::size_t link = 0; link < loads.size(); ++link) {
    if (view.capacities()[link] == 0) loads[link] = 0;
  }
  return loads;
}

std::vector<std::int64_t> BusiestLoads(const State& state) {
  const Elephants elephants = DescribeLoad(state);
  return BusiestLoads(state, state.view, elephants, CurrentPaths(state, elephants));
}

AroundPhases DescribeAroundPhases(const State& state, const FabricView& view,
                                  const Elephants& elephants, const Assignment& paths) {
  AroundPhases around;
  std::vector<std::size_t> phased;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    (state.phases.Of(elephants.slots[i]).empty() ? around.places : phased).push_back(i);
  }
  const auto [of_phases, their_paths] = Select(elephants, paths, phased);
  std::tie(around.elephants, around.paths) = Select(elephants, paths, around.places);
  around.elephants.base_loads = BusiestLoads(state, view, of_phases, their_paths);
  around.paths.max_load = MaxLoadOf(view, around.elephants, around.paths);
  return around;
}

LoadSummary SummarizePaths(const State& state, const FabricView& view, const Elephants& elephants,
                           const Assignment& paths) {
  LoadSummary summary;
  summary.max_load = ComputeMaxLoad(view, BusiestLoads(state, view, elephants, paths));
  summary.lower_bound = BusiestBound(state, view, elephants, paths);
  summary.compared = static_cast<std::int64_t>(elephants.slots.size());
  summary.are_phases_known = !state.phases.IsEmpty();
  return summary;
}

LeftOut CountLeftOut(const State& state) {
  LeftOut left_out;
  std::set<std::pair<fabric::NodeId, fabric::NodeId>> seen;  // pairs of leaves
  for (const FlowSlot slot : state.flows.All()) {
    const Flow& flow = state.flows.At(slot);
    if (flow.status == FlowStatus::kUnsteered) ++left_out.unsteered;
    if (flow.status == FlowStatus::kLearning) ++left_out.waiting;
    const bool crosses = !flow.subflows.empty();
    if (!crosses || !seen.emplace(flow.source_leaf, flow.destination_leaf).second) continue;
    const auto paths = state.PathsOf(flow);
    left_out.unreachable |= std::ranges::any_of(
        FindUnreachable(state.path_map, flow.key, paths), [&](fabric::PathIndex path) {
          return fabric::IsUsable(state.topology, paths[path.Index()]);
        });
  }
  return left_out;
}

LoadSummary Summarize(const State& state) {
  const Elephants elephants = DescribeLoad(state);
  LoadSummary summary =
      SummarizePaths(state, state.view, elephants, CurrentPaths(state, elephants));
  summary.reach = CountReach(state);
  summary.left_out = CountLeftOut(state);
  return summary;
}

Proof FindTheorem(const State& state) {
  const Proof proof = StandingProof(state.view);
  if (proof == Proof::kNone) return proof;
  const Elephants elephants = DescribeLoad(state);
  const auto splits_otherwise = [&](const Commodity& commodity) {
    return commodity.subflows != elephants.commodities.front().subflows;
  };
  const bool applies =
      state.phases.IsEmpty() && !elephants.MayBeUneven() &&
      std::ranges::find(elephants.can_move, false) == elephants.can_move.end() &&
      std::ranges::none_of(elephants.commodities, splits_otherwise) &&
      std::ranges::all_of(elephants.base_loads, [](std::int64_t load) { return load == 0; });
  return applies ? proof : Proof::kNone;
}

}  // namespace espalier::controller
