#include "collective/forest/edge_splitting/verification.h"

#include <algorithm>
#include <functional>

#include "collective/forest/bound/feasibility.h"

namespace espalier::forest {

Verification::Verification(const Problem& problem, SplitGraph& graph, std::int64_t need,
                           const Control& control)
    : problem_(problem),
      graph_(graph),
      need_(need),
      control_(control),
      flow_(graph.flows()),
      removed_(static_cast<std::size_t>(problem.node_count), false),
      all_ranks_(NeighbourOrder(problem)),
      chosen_(static_cast<std::size_t>(problem.node_count), false),
      short_at_(static_cast<std::size_t>(problem.node_count), 0) {}

bool Verification::CanBeEntered(std::int32_t node) const {
  if (!problem_.IsRank(node)) return true;
  std::int64_t entering = graph_.flows().Supply(node);
  for (const FlowGraph::Port& port : graph_.flows().Ports(node)) {
    entering += graph_.flows().capacity(port.out ^ 1);
  }
  return entering >= need_;
}

bool Verification::Holds(std::span<const Removal> removals) {
  neighbours_.clear();
  for (const Removal& removal : removals) {
    for (const Split& split : removal.splits) {
      for (const std::int32_t node : {split.from, split.to}) {
        if (node != kSource && !removed_[static_cast<std::size_t>(node)]) {
          neighbours_.push_back(node);
        }
      }
    }
  }
  ChooseSinks(neighbours_, kSource);
  return AllReached();
}

bool Verification::HoldsAround(std::int32_t node, std::span<const std::int32_t> neighbours) {
  ChooseSinks(neighbours, node);
  return AllReached();
}

std::int64_t Verification::ReduceToGamma(std::int32_t node,
                                         std::span<const std::int32_t> neighbours,
                                         const Split& split) {
  const bool ranks_only = ChooseSinks(neighbours, node);
  std::int64_t gamma = split.amount;
  const auto reduce = [&](std::int32_t sink) {
    // Every cut that is too small lost all of gamma, so it regains whatever is undone.
    const std::int64_t deficit =
        IsCancelled() ? gamma : std::min(flow_.Deficit(sink, need_), gamma);
    if (deficit == 0) return;
    short_at_[static_cast<std::size_t>(sink)] = ++shortages_;
    graph_.Apply(node, split.from, split.to, -deficit);
    gamma -= deficit;
  };
  if (ranks_only) {
    // A cut lost capacity only if both ends of the pair are on its sink side and the node is not,
    // or the other way round. So either the node or both ends belong to the source side.
    if (split.from != kSource && split.to != kSource) {
      flow_.Contract(node);
      reduce(split.to);
      flow_.ForgetContractions();
    }
    if (split.from != kSource) flow_.Contract(split.from);
    if (split.to != kSource) flow_.Contract(split.to);
  }
  for (const std::int32_t sink : sinks_) {
    if (gamma == 0) break;
    if (ranks_only && (sink == split.from || sink == split.to)) continue;
    reduce(sink);
    flow_.Contract(sink);
  }
  flow_.ForgetContractions();
  return gamma;
}

bool Verification::ChooseSinks(std::span<const std::int32_t> neighbours, std::int32_t except) {
  sinks_.clear();
  const bool ranks_only = std::all_of(neighbours.begin(), neighbours.end(),
                                      [this](std::int32_t n) { return problem_.IsRank(n); });
  const std::span<const std::int32_t> candidates =
      ranks_only ? neighbours : std::span<const std::int32_t>(all_ranks_);
  for (const std::int32_t node : candidates) {
    const auto index = static_cast<std::size_t>(node);
    if (node == except || chosen_[index] || removed_[index]) continue;
    chosen_[index] = true;
    sinks_.push_back(node);
  }
  for (const std::int32_t node : sinks_) chosen_[static_cast<std::size_t>(node)] = false;
  if (ranks_only) {
    std::ranges::stable_sort(sinks_, std::greater{}, [this](std::int32_t node) {
      return short_at_[static_cast<std::size_t>(node)];
    });
  }
  return ranks_only;
}

bool Verification::AllReached() {
  bool reached = true;
  for (const std::int32_t sink : sinks_) {
    reached = !IsCancelled() && flow_.Reaches(sink, need_);
    if (!reached) {
      short_at_[static_cast<std::size_t>(sink)] = ++shortages_;
      break;
    }
    flow_.Contract(sink);
  }
  flow_.ForgetContractions();
  return reached;
}

}  // namespace espalier::forest
