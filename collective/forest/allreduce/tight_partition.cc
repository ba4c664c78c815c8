#include "collective/forest/allreduce/tight_partition.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "collective/forest/flow/flow_graph.h"
#include "collective/forest/flow/pull_flow.h"

namespace espalier::forest {
namespace {

using Nodes = std::vector<std::int32_t>;

class PartitionFinder {
 public:
  PartitionFinder(const Problem& problem, const Control& control)
      : problem_(problem),
        control_(control),
        total_weight_(problem.TotalWeight()),
        graph_(problem.node_count),
        part_of_(static_cast<std::size_t>(problem.node_count), kNone) {}

  Result<std::optional<TightPartition>> Run(const Rational& inverse_rate) {
    if (auto scaled = Scale(inverse_rate); !scaled) return Propagate(scaled);
    std::vector<Nodes> sets;
    PullFlow flow(graph_);
    for (std::int32_t rank = 0; rank < problem_.rank_count; ++rank) {
      if (control_.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
      control_.Report("prove", static_cast<double>(rank) / problem_.rank_count);
      // The flow asks for one unit more than the supply, so it ends at the smallest minimum cut
      // around the rank.
      flow.Deficit(rank, supply_ + 1);
      Nodes set = flow.SinkSide();
      if (WeightOf(set) == total_weight_) return std::optional<TightPartition>();
      std::sort(set.begin(), set.end());
      sets.push_back(std::move(set));
    }
    std::stable_sort(sets.begin(), sets.end(),
                     [](const Nodes& x, const Nodes& y) { return x.size() > y.size(); });
    for (const Nodes& set : sets) {
      if (!Place(set)) return std::optional<TightPartition>();
    }
    std::erase_if(parts_, [](const Nodes& part) { return part.empty(); });
    return std::optional(TightPartition{std::move(parts_)});
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // Scales capacities to p * b and supplies to q * weight, as for the bound itself.
  Result<void> Scale(const Rational& inverse_rate) {
    const auto overflow = [] {
      return Fail(
          ErrorCode::kResourceExhausted,
          "exact products of the bandwidths exceed 63 bits (give bandwidths with fewer digits)");
    };
    const auto p = ToInt64(inverse_rate.numerator());
    const auto q = ToInt64(inverse_rate.denominator());
    if (!p || !q) return overflow();
    scale_ = *p;
    weight_scale_ = *q;
    const Int128 supply = Int128{weight_scale_} * total_weight_;
    Int128 total = supply + 1;
    for (const Arc& arc : problem_.arcs) total += Int128{scale_} * arc.capacity;
    if (!ToInt64(total)) return overflow();
    supply_ = static_cast<std::int64_t>(supply);
    for (const Arc& arc : problem_.arcs) graph_.Add(arc.tail, arc.head, scale_ * arc.capacity);
    for (std::int32_t rank = 0; rank < problem_.rank_count; ++rank) {
      graph_.AddSupply(rank, weight_scale_ * problem_.weight[static_cast<std::size_t>(rank)]);
    }
    return {};
  }

  std::int64_t WeightOf(const Nodes& set) const {
    std::int64_t weight = 0;
    for (const std::int32_t node : set) {
      if (problem_.IsRank(node)) weight += problem_.weight[static_cast<std::size_t>(node)];
    }
    return weight;
  }

  bool IsTight(const Nodes& set) const {
    std::vector<bool> inside(static_cast<std::size_t>(problem_.node_count), false);
    for (const std::int32_t node : set) inside[static_cast<std::size_t>(node)] = true;
    std::int64_t capacity = 0;
    for (const Arc& arc : problem_.arcs) {
      const bool enters =
          !inside[static_cast<std::size_t>(arc.tail)] && inside[static_cast<std::size_t>(arc.head)];
      if (enters) capacity += arc.capacity;
    }
    return Int128{capacity} * scale_ == Int128{total_weight_ - WeightOf(set)} * weight_scale_;
  }

  // Adds a set to the parts, merged with those that it meets. Parts that contain it stay as they
  // are.
  bool Place(const Nodes& set) {
    std::vector<std::size_t> met;
    for (const std::int32_t node : set) {
      const std::size_t part = part_of_[static_cast<std::size_t>(node)];
      if (part != kNone) met.push_back(part);
    }
    std::sort(met.begin(), met.end());
    met.erase(std::unique(met.begin(), met.end()), met.end());
    if (met.size() == 1 && std::ranges::includes(parts_[met[0]], set)) return true;
    Nodes whole = set;
    for (const std::size_t part : met) {
      Nodes merged;
      std::ranges::set_union(whole, parts_[part], std::back_inserter(merged));
      whole = std::move(merged);
      parts_[part].clear();
    }
    if (!met.empty() && (WeightOf(whole) == total_weight_ || !IsTight(whole))) return false;
    for (const std::int32_t node : whole) part_of_[static_cast<std::size_t>(node)] = parts_.size();
    parts_.push_back(std::move(whole));
    return true;
  }

  const Problem& problem_;
  const Control& control_;
  std::int64_t total_weight_;
  FlowGraph graph_;
  std::int64_t supply_ = 0;        // q * total weight
  std::int64_t scale_ = 0;         // p
  std::int64_t weight_scale_ = 0;  // q
  std::vector<std::size_t> part_of_;
  std::vector<Nodes> parts_;  // empty where merged into a later one
};

}  // namespace

Result<std::optional<TightPartition>> FindTightPartition(const Problem& problem,
                                                         const Optimality& optimality,
                                                         const Control& control) {
  return PartitionFinder(problem, control).Run(optimality.inverse_rate);
}

}  // namespace espalier::forest
