#include "controller/placement/load_summary.h"

#include <algorithm>

#include "controller/routing/load_bounds.h"

namespace espalier::controller {

Elephants DescribeElephants(const State& state, std::span<const FlowSlot> slots) {
  const auto link_of = [&](fabric::NodeId nic, bool sends) {
    fabric::DirectedLink link = state.paths.FindAttachment(nic)->uplink;
    if (!sends) link.forward = !link.forward;
    return static_cast<std::uint32_t>(link.Index());
  };
  Elephants elephants;
  for (const FlowSlot slot : slots) {
    const Flow& flow = state.flows.At(slot);
    if (flow.subflows.empty()) continue;
    elephants.slots.push_back(slot);
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
  for (const FlowSlot slot : elephants.slots) {
    for (const Subflow& subflow : state.flows.At(slot).subflows) {
      const auto path = state.flow_paths.PathOf(subflow);
      assignment.paths.push_back(path ? path->value() : kNoPath);
    }
    assignment.first.push_back(static_cast<std::uint32_t>(assignment.paths.size()));
  }
  assignment.max_load =
      ComputeMaxLoad(state.view, ComputeLoads(state.view, elephants.commodities, assignment));
  return assignment;
}

LoadSummary Summarize(const State& state) {
  std::vector<FlowSlot> slots = state.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) { return !state.HasPaths(state.flows.At(slot)); });
  const Elephants elephants = DescribeElephants(state, slots);
  return {CurrentPaths(state, elephants).max_load,
          ComputeLowerBound(state.view, elephants.commodities)};
}

}  // namespace espalier::controller
