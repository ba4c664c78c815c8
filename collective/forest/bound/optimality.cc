#include "collective/forest/bound/optimality.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "collective/forest/bound/feasibility.h"
#include "collective/forest/flow/flow_graph.h"
#include "collective/forest/flow/pull_flow.h"
#include "common/base/check.h"

namespace espalier::forest {

namespace {

// Lists the ranks on one side of a cut for people, at most a few of them.
std::string NameRanks(const Problem& problem, const std::vector<bool>& on_side, bool side) {
  constexpr std::size_t kShown = 4;
  std::string text;
  std::size_t count = 0;
  for (std::int32_t rank = 0; rank < problem.rank_count; ++rank) {
    if (on_side[static_cast<std::size_t>(rank)] != side) continue;
    if (count++ >= kShown) continue;
    if (!text.empty()) text += ", ";
    text += problem.names[static_cast<std::size_t>(rank)];
  }
  if (count > kShown) text += fmt::format(" and {} more", count - kShown);
  return text;
}

// The search for the bound: lambda = 1/x grows from one violated cut to the next until every rank
// is accepted.
class Newton {
 public:
  Newton(const Problem& problem, const Control& control)
      : problem_(problem), control_(control), total_weight_(problem.TotalWeight()) {}

  Result<Optimality> Run() {
    Result<void> started = Start();
    if (!started) return Propagate(started);
    const std::vector<std::int32_t> order = NeighbourOrder(problem_);
    for (std::size_t accepted = 0; accepted < order.size();) {
      if (control_.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
      Result<std::size_t> more = AcceptFrom(order, accepted);
      if (!more) return Propagate(more);
      accepted = *more;
      control_.Report("bound", static_cast<double>(accepted) / static_cast<double>(order.size()));
    }
    return Finish();
  }

 private:
  // Starts with the largest ratio among the cuts around single ranks.
  Result<void> Start() {
    std::vector<std::int64_t> in(static_cast<std::size_t>(problem_.node_count), 0);
    for (const Arc& arc : problem_.arcs) in[static_cast<std::size_t>(arc.head)] += arc.capacity;
    for (std::int32_t rank = 0; rank < problem_.rank_count; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      const std::int64_t outside = total_weight_ - problem_.weight[index];
      if (outside == 0) continue;
      if (in[index] != 0 && Rational(outside, in[index]) <= lambda_) continue;
      std::vector<bool> source_side(static_cast<std::size_t>(problem_.node_count), true);
      source_side[index] = false;
      Result<void> tightened = Tighten(std::move(source_side));
      if (!tightened) return Propagate(tightened);
    }
    return {};
  }

  std::vector<bool> SourceSide(const std::vector<std::int32_t>& sink_side) const {
    std::vector<bool> side(static_cast<std::size_t>(problem_.node_count), true);
    for (const std::int32_t node : sink_side) side[static_cast<std::size_t>(node)] = false;
    return side;
  }

  // Raises lambda to weight(S) / B+(S) of a violated cut.
  Result<void> Tighten(std::vector<bool> source_side) {
    std::int64_t weight = 0;
    for (std::size_t rank = 0; rank < problem_.weight.size(); ++rank) {
      if (source_side[rank]) weight += problem_.weight[rank];
    }
    std::int64_t leaving = 0;
    for (const Arc& arc : problem_.arcs) {
      if (source_side[static_cast<std::size_t>(arc.tail)] &&
          !source_side[static_cast<std::size_t>(arc.head)]) {
        leaving += arc.capacity;
      }
    }
    if (leaving == 0) {
      return Fail(
          ErrorCode::kFailedPrecondition,
          fmt::format("{} cannot be reached from {}: there is no path over links that are up",
                      NameRanks(problem_, source_side, false),
                      NameRanks(problem_, source_side, true)));
    }
    const Rational ratio(weight, leaving);
    ESPALIER_CHECK(ratio > lambda_, "ratio={} lambda={}", ratio.ToString(), lambda_.ToString());
    lambda_ = ratio;
    cut_ = std::move(source_side);
    return {};
  }

  // Tests ranks at the current lambda until one is refused, which raises lambda. Returns how many
  // ranks of the order are accepted; they stay accepted, as a larger lambda can only help them.
  Result<std::size_t> AcceptFrom(std::span<const std::int32_t> order, std::size_t accepted) {
    Result<FlowGraph> graph = ScaledGraph();
    if (!graph) return Propagate(graph);
    PullFlow flow(*graph);
    for (std::size_t i = 0; i < accepted; ++i) flow.Contract(order[i]);
    for (; accepted < order.size(); ++accepted) {
      if (flow.Deficit(order[accepted], need_) > 0) {
        Result<void> tightened = Tighten(SourceSide(flow.SinkSide()));
        if (!tightened) return Propagate(tightened);
        break;
      }
      flow.Contract(order[accepted]);
    }
    return accepted;
  }

  // The graph G with capacities p * b and supplies q * weight. Every rank needs q * total weight
  // (ForestColl, Theorem 23, times p * q).
  Result<FlowGraph> ScaledGraph() {
    const auto overflow = [] {
      return Fail(ErrorCode::kResourceExhausted,
                  "exact products of the bandwidths or weights exceed 63 bits (give them with "
                  "fewer digits)");
    };
    const std::int64_t p = *ToInt64(lambda_.numerator());
    const std::int64_t q = *ToInt64(lambda_.denominator());
    std::int64_t total = 0;
    for (const Arc& arc : problem_.arcs) {
      const auto sum = CheckedAdd(total, arc.capacity);
      if (!sum) return overflow();
      total = *sum;
    }
    const auto capacity = CheckedMultiply(total, p);
    const auto supply = CheckedMultiply(total_weight_, q);
    if (!capacity || !supply || !CheckedAdd(*capacity, *supply)) return overflow();
    FlowGraph graph(problem_.node_count);
    for (const Arc& arc : problem_.arcs) graph.Add(arc.tail, arc.head, arc.capacity * p);
    for (std::int32_t rank = 0; rank < problem_.rank_count; ++rank) {
      graph.AddSupply(rank, problem_.weight[static_cast<std::size_t>(rank)] * q);
    }
    need_ = *supply;
    return graph;
  }

  Optimality Finish() const {
    Optimality optimality{lambda_, {}};
    for (std::int32_t node = 0; node < problem_.node_count; ++node) {
      if (cut_[static_cast<std::size_t>(node)]) optimality.cut.push_back(node);
    }
    return optimality;
  }

  const Problem& problem_;
  const Control& control_;
  std::int64_t total_weight_ = 0;
  Rational lambda_;
  std::vector<bool> cut_;  // by node: it is on the source side
  std::int64_t need_ = 0;
};

}  // namespace

Result<Optimality> ComputeOptimality(const Problem& problem, const Control& control) {
  return Newton(problem, control).Run();
}

}  // namespace espalier::forest
