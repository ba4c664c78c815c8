#include "controller/placement/ports/reachable_paths.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "controller/paths/models/path_reach.h"

namespace espalier::controller {

using fabric::PathIndex;

bool IsUnreachable(const State& state, const Flow& flow, std::int32_t path) {
  return IsUnreachable(state.path_map, flow.key, state.PathsOf(flow), PathIndex(path));
}

bool HasUnreachablePath(const State& state, std::span<const FlowPaths::Move> moves) {
  return std::ranges::any_of(moves, [&](const FlowPaths::Move& move) {
    const Flow& flow = state.flows.At(state.flow_paths.FlowOf(move.subflow));
    return IsUnreachable(state, flow, move.to);
  });
}

bool MoveToReachablePath(const State& state, FlowDecisions& decisions, FlowSlot slot,
                         std::uint32_t index) {
  const Flow& flow = state.flows.At(slot);
  const Subflow& subflow = flow.subflows[index];
  const OnlineAssigner& assigner = state.flow_paths.assigner();
  const auto paths = state.PathsOf(flow);
  const auto unreachable = FindUnreachable(state.path_map, flow.key, paths);
  const std::int32_t before = assigner.PathOf(*subflow.id);
  std::vector<std::uint32_t> own;  // on these, its own load does not count
  if (before != kNoPath) std::ranges::copy(assigner.LinksOf(*subflow.id), std::back_inserter(own));
  const std::int64_t share = ShareOf(flow, subflow);
  std::int32_t best = kNoPath;
  std::vector<double> best_loads;
  const auto consider = [&](std::int32_t path) {
    const fabric::Path& candidate = paths[static_cast<std::size_t>(path)];
    if (!fabric::IsUsable(state.topology, candidate)) return;
    if (std::ranges::binary_search(unreachable, PathIndex(path))) return;
    std::vector<double> loads;
    for (const fabric::DirectedLink hop : candidate.hops) {
      const auto link = static_cast<std::uint32_t>(hop.Index());
      const std::int64_t others =
          assigner.LoadOf(link) - (std::ranges::count(own, link) > 0 ? share : 0);
      loads.push_back(static_cast<double>(others) / state.view.capacities_bps()[link]);
    }
    std::ranges::sort(loads, std::greater<>());
    if (best != kNoPath && loads >= best_loads) return;
    best = path;
    best_loads = std::move(loads);
  };
  if (before != kNoPath) consider(before);
  for (std::int32_t path = 0; path < static_cast<std::int32_t>(paths.size()); ++path) {
    if (path != before) consider(path);
  }
  if (best == kNoPath || best == before) return false;
  decisions.Place(slot, index, best);
  return true;
}

}  // namespace espalier::controller
