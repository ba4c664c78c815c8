#include "controller/placement/loads/flow_moves.h"

#include <utility>

namespace espalier::controller {

Rerouted BeginMove(const State& state, FlowSlot slot) {
  const Flow& flow = state.flows.At(slot);
  Rerouted moved{.slot = slot,
                 .agent = flow.agent,
                 .local = flow.local,
                 .job = state.flows.jobs().Shared(flow.job),
                 .source_leaf = flow.source_leaf,
                 .destination_leaf = flow.destination_leaf};
  EndMove(state, moved);  // appends its present paths
  moved.left = moved.all;
  return moved;
}

void EndMove(const State& state, Rerouted& moved) {
  for (const Subflow& subflow : state.flows.At(moved.slot).subflows) {
    if (const auto path = state.flow_paths.PathOf(subflow))
      moved.paths[moved.all++] = path->value();
  }
}

bool IsStillOpen(const State& state, const Rerouted& moved) {
  if (!state.flows.IsOpen(moved.slot)) return false;
  const Flow& flow = state.flows.At(moved.slot);
  return flow.agent == moved.agent && flow.local == moved.local;
}

std::vector<FlowMove> Describe(const State& state, std::span<const Rerouted> rerouted) {
  std::vector<FlowMove> moves;
  moves.reserve(rerouted.size());
  for (const Rerouted& moved : rerouted) {
    const auto via = [&](std::span<const std::int32_t> paths) {
      return state.Via(moved.source_leaf, moved.destination_leaf, paths);
    };
    moves.push_back({state.FlowName(moved.agent, moved.local), *moved.job, via(moved.from()),
                     via(moved.to()),
                     IsStillOpen(state, moved) ? state.BytesInFlight(moved.slot) : 0});
  }
  return moves;
}

FlowMove DescribeMove(const State& state, FlowSlot slot, std::string from) {
  const Flow& flow = state.flows.At(slot);
  return {state.FlowName(flow), state.flows.JobName(flow.job), std::move(from), state.Via(flow),
          state.BytesInFlight(slot)};
}

}  // namespace espalier::controller
