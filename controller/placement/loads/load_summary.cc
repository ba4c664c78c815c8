#include "controller/placement/loads/load_summary.h"

#include <algorithm>

#include "controller/routing/load_bounds.h"
#include "controller/routing/share_balancer.h"
#include "controller/routing/standing_proof.h"

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

// The flows that have paths.
Elephants DescribeLoad(const State& state) {
  std::vector<FlowSlot> slots = state.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) { return !state.CountsAsLoad(state.flows.At(slot)); });
  return DescribeElephants(state, slots);
}

}  // namespace

Elephants DescribeElephants(const State& state, std::span<const FlowSlot> slots) {
  const auto link_of = [&](fabric::NodeId nic, bool sends) {
    fabric::DirectedLink link = state.paths.FindAttachment(nic)->uplink;
    if (!sends) link.forward = !link.forward;
    return static_cast<std::uint32_t>(link.Index());
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

LoadSummary Summarize(const State& state) {
  const Elephants elephants = DescribeLoad(state);
  const Assignment paths = CurrentPaths(state, elephants);
  return {paths.max_load, LowerBoundOf(state.view, elephants, paths), CountReach(state)};
}

Proof FindTheorem(const State& state) {
  const Proof proof = StandingProof(state.view);
  if (proof == Proof::kNone) return proof;
  const Elephants elephants = DescribeLoad(state);
  const auto splits_otherwise = [&](const Commodity& commodity) {
    return commodity.subflows != elephants.commodities.front().subflows;
  };
  const bool applies =
      !elephants.MayBeUneven() &&
      std::ranges::find(elephants.can_move, false) == elephants.can_move.end() &&
      std::ranges::none_of(elephants.commodities, splits_otherwise) &&
      std::ranges::all_of(elephants.base_loads, [](std::int64_t load) { return load == 0; });
  return applies ? proof : Proof::kNone;
}

}  // namespace espalier::controller
