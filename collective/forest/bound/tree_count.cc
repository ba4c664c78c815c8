#include "collective/forest/bound/tree_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "collective/forest/bound/feasibility.h"
#include "collective/forest/bound/optimality.h"
#include "collective/forest/problem/circulation.h"

namespace espalier::forest {

namespace {

tl::unexpected<Error> Overflow() {
  return Fail(ErrorCode::kResourceExhausted,
              "capacities for so many trees exceed 62 bits (use fewer trees per root)");
}

// Returns floor(scale * b) of every arc; none if the sum exceeds 62 bits.
std::optional<std::vector<std::int64_t>> ScaleCapacities(const Problem& problem,
                                                         const Rational& scale) {
  std::vector<std::int64_t> capacity;
  capacity.reserve(problem.arcs.size());
  std::int64_t total = 0;
  for (const Arc& arc : problem.arcs) {
    Int128 product = 0;
    if (__builtin_mul_overflow(scale.numerator(), Int128{arc.capacity}, &product)) {
      return std::nullopt;
    }
    const auto scaled = ToInt64(product / scale.denominator());
    if (!scaled) return std::nullopt;
    const auto sum = CheckedAdd(total, *scaled);
    if (!sum || *sum > std::numeric_limits<std::int64_t>::max() / 2) return std::nullopt;
    total = *sum;
    capacity.push_back(*scaled);
  }
  return capacity;
}

bool IsBalanced(const Problem& problem, std::span<const std::int64_t> capacity) {
  std::vector<std::int64_t> surplus(static_cast<std::size_t>(problem.node_count), 0);
  for (std::size_t a = 0; a < capacity.size(); ++a) {
    surplus[static_cast<std::size_t>(problem.arcs[a].tail)] += capacity[a];
    surplus[static_cast<std::size_t>(problem.arcs[a].head)] -= capacity[a];
  }
  return std::all_of(surplus.begin(), surplus.end(), [](std::int64_t s) { return s == 0; });
}

// Remembers cuts that were too small. A cut that is too small again refuses a scale without any
// flow. The cut that refused last is tried first.
class NarrowCuts {
 public:
  explicit NarrowCuts(const Problem& problem) : problem_(problem) {}

  void Add(std::span<const std::int32_t> sink_side) {
    std::vector<bool> in_sink(static_cast<std::size_t>(problem_.node_count), false);
    for (const std::int32_t node : sink_side) in_sink[static_cast<std::size_t>(node)] = true;
    Cut cut;
    for (std::size_t r = 0; r < problem_.weight.size(); ++r) {
      if (!in_sink[r]) cut.weight += problem_.weight[r];
    }
    for (std::size_t a = 0; a < problem_.arcs.size(); ++a) {
      const Arc& arc = problem_.arcs[a];
      const bool crosses = !in_sink[static_cast<std::size_t>(arc.tail)] &&
                           in_sink[static_cast<std::size_t>(arc.head)];
      if (crosses) cut.arcs.push_back(a);
    }
    if (cuts_.size() == kMaxCuts) cuts_.pop_back();
    cuts_.insert(cuts_.begin(), std::move(cut));
  }

  bool Refuse(std::span<const std::int64_t> capacity, std::int64_t trees) {
    const auto refuses = [&](const Cut& cut) {
      std::int64_t room = 0;
      for (const std::size_t arc : cut.arcs) room += capacity[arc];
      return Int128{room} < Int128{trees} * cut.weight;
    };
    const auto found = std::ranges::find_if(cuts_, refuses);
    if (found == cuts_.end()) return false;
    std::rotate(cuts_.begin(), found, found + 1);
    return true;
  }

 private:
  static constexpr std::size_t kMaxCuts = 64;
  struct Cut {
    std::vector<std::size_t> arcs;
    std::int64_t weight = 0;  // on the source side
  };
  const Problem& problem_;
  std::vector<Cut> cuts_;
};

// Problem: find the least scale U whose rounded capacities floor(U * b) support k trees.
//
// Idea: at the least U some floor(U * b) changes, so U is j / b for the bandwidth b of some arc.
// Capacities grow monotonically with U, so for each b the least j can be found by bisection between
// the known floor and the best U so far. If the largest j / b below the best U fails, this b offers
// nothing better and costs one test.
//
// Invariant: `best`, if set, supports the trees, and no feasible j / b of the bandwidths searched
// so far lies below it.
//
// Cost: a test is one flow per rank, or a few sums if a known cut refuses again. A bandwidth that
// improves on the best takes O(log) tests, every other one test.
// Source: ForestColl, section B.5.4.
class FixedSearch {
 public:
  FixedSearch(const Problem& problem, const Control& control)
      : problem_(problem), control_(control), cuts_(problem) {
    for (const Arc& arc : problem.arcs) bandwidths_.push_back(arc.capacity);
    std::sort(bandwidths_.begin(), bandwidths_.end());
    bandwidths_.erase(std::unique(bandwidths_.begin(), bandwidths_.end()), bandwidths_.end());
  }

  // Returns the least feasible scale below `ceiling`, or none. The ceiling itself is not tested.
  // Errors: kResourceExhausted, kUnavailable.
  Result<std::optional<Rational>> FindBelow(std::int64_t trees, const Rational& floor,
                                            const Rational& ceiling) {
    trees_ = trees;
    std::optional<Rational> best;
    for (const std::int64_t b : bandwidths_) {
      const std::optional<Int128> low = Steps(floor, b, true);
      std::optional<Int128> high = Steps(best ? *best : ceiling, b, false);
      if (!low || !high) return Overflow();
      if (Rational(*high, b) == (best ? *best : ceiling)) --*high;
      if (*high < *low) continue;
      Result<bool> possible = Supports(Rational(*high, b));
      if (!possible) return Propagate(possible);
      if (!*possible) continue;
      Result<Int128> least = Bisect(*low, *high, b);
      if (!least) return Propagate(least);
      best = Rational(*least, b);
    }
    return best;
  }

 private:
  // Returns the least j with j / b >= value if round_up is set, else the greatest j with j / b <=
  // value.
  static std::optional<Int128> Steps(const Rational& value, std::int64_t b, bool round_up) {
    Int128 product = 0;
    if (__builtin_mul_overflow(value.numerator(), Int128{b}, &product)) return std::nullopt;
    return round_up ? (product + value.denominator() - 1) / value.denominator()
                    : product / value.denominator();
  }

  // Precondition: `high` is feasible.
  Result<Int128> Bisect(Int128 low, Int128 high, std::int64_t b) {
    while (low < high) {
      const Int128 middle = low + (high - low) / 2;
      Result<bool> possible = Supports(Rational(middle, b));
      if (!possible) return Propagate(possible);
      if (*possible) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }

  Result<bool> Supports(const Rational& scale) {
    if (control_.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
    const auto capacity = ScaleCapacities(problem_, scale);
    if (!capacity) return Overflow();
    if (cuts_.Refuse(*capacity, trees_)) return false;
    const std::vector<std::int32_t> narrow = FindNarrowCut(problem_, *capacity, trees_);
    if (!narrow.empty()) cuts_.Add(narrow);
    return narrow.empty();
  }

  const Problem& problem_;
  std::int64_t trees_ = 0;
  const Control& control_;
  NarrowCuts cuts_;
  std::vector<std::int64_t> bandwidths_;
};

// Returns none if products exceed 127 bits.
std::optional<Rational> Sum(const Rational& a, const Rational& b) {
  Int128 left = 0;
  Int128 right = 0;
  Int128 sum = 0;
  Int128 denominator = 0;
  if (__builtin_mul_overflow(a.numerator(), b.denominator(), &left) ||
      __builtin_mul_overflow(b.numerator(), a.denominator(), &right) ||
      __builtin_add_overflow(left, right, &sum) ||
      __builtin_mul_overflow(a.denominator(), b.denominator(), &denominator)) {
    return std::nullopt;
  }
  return Rational(sum, denominator);
}

// Balances the capacities of a scale that supports k trees.
Result<TreeCount> FinishFixed(const Problem& problem, const Rational& scale, std::int64_t trees) {
  auto capacity = ScaleCapacities(problem, scale);
  const auto inverse_rate = Rational::Quotient(scale, Rational(trees, 1));
  if (!capacity || !inverse_rate) return Overflow();
  if (!IsBalanced(problem, *capacity)) {
    TrimToCirculation(problem.node_count, problem.arcs, *capacity);
    if (!SupportsTrees(problem, *capacity, trees)) {
      return Fail(
          ErrorCode::kFailedPrecondition,
          fmt::format(
              "with {} trees per root, the rounded capacities are not balanced at every node, and "
              "no balanced part of them is as good (choose another number of trees)",
              trees));
    }
  }
  return TreeCount{trees, scale, std::move(*capacity), *inverse_rate};
}

// Returns the counts of all problems, or the first error.
template <typename CountOne>
Result<std::vector<TreeCount>> CountEach(std::span<const Problem> problems,
                                         const CountOne& count_one) {
  std::vector<TreeCount> counts;
  for (const Problem& problem : problems) {
    Result<TreeCount> count = count_one(problem);
    if (!count) return Propagate(count);
    counts.push_back(std::move(*count));
  }
  return counts;
}

}  // namespace

Result<TreeCount> CountTrees(const Problem& problem, const Optimality& optimality) {
  const Int128 p = optimality.inverse_rate.numerator();
  const Int128 q = optimality.inverse_rate.denominator();
  Int128 divisor = q;
  for (const Arc& arc : problem.arcs) divisor = GreatestCommonDivisor(divisor, arc.capacity);
  const auto trees = ToInt64(q / divisor);
  const Rational scale(p, divisor);
  auto capacity = ScaleCapacities(problem, scale);
  if (!trees || !capacity) return Overflow();
  const auto all_trees = CheckedMultiply(*trees, problem.TotalWeight());
  if (!all_trees || *all_trees > std::numeric_limits<std::int64_t>::max() / 2) return Overflow();
  return TreeCount{*trees, scale, std::move(*capacity), optimality.inverse_rate};
}

Result<TreeCount> CountTreesFixed(const Problem& problem, const Optimality& optimality,
                                  std::int64_t trees_per_weight, const Control& control) {
  if (trees_per_weight < 1) {
    return Fail(ErrorCode::kInvalidArgument, "a root needs at least one tree");
  }
  const auto all_trees = CheckedMultiply(trees_per_weight, problem.TotalWeight());
  if (!all_trees || *all_trees > std::numeric_limits<std::int64_t>::max() / 2) return Overflow();
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Arc& arc : problem.arcs) least = std::min(least, arc.capacity);
  // Theorem 35: U is within 1 / min b of k / x*.
  const auto floor = Rational::Product(optimality.inverse_rate, Rational(trees_per_weight, 1));
  if (!floor) return Overflow();
  const auto ceiling = Sum(*floor, Rational(1, least));
  if (!ceiling) return Overflow();
  Result<std::optional<Rational>> scale =
      FixedSearch(problem, control).FindBelow(trees_per_weight, *floor, *ceiling);
  if (!scale) return Propagate(scale);
  return FinishFixed(problem, scale->value_or(*ceiling), trees_per_weight);
}

Result<TreeCount> CountTreesAtMost(const Problem& problem, const Optimality& optimality,
                                   std::int64_t max_trees, const Control& control) {
  auto counts = CountTreesAtMost(std::span(&problem, 1), optimality, max_trees, control);
  if (!counts) return Propagate(counts);
  return std::move(counts->front());
}

Result<std::vector<TreeCount>> CountTreesAtMost(std::span<const Problem> problems,
                                                const Optimality& optimality,
                                                std::int64_t max_trees, const Control& control) {
  if (max_trees < 1) return Fail(ErrorCode::kInvalidArgument, "a root needs at least one tree");
  const auto unlimited = CountTrees(problems.front(), optimality);
  if (unlimited && unlimited->trees_per_weight <= max_trees) {
    return CountEach(problems, [&](const Problem& problem) {  // all counts have the same k
      return CountTrees(problem, optimality);
    });
  }
  const auto count_fixed = [&](std::int64_t k) {
    return CountEach(problems, [&](const Problem& problem) {
      return CountTreesFixed(problem, optimality, k, control);
    });
  };
  Result<std::vector<TreeCount>> best = count_fixed(1);
  std::vector<FixedSearch> searches;
  for (const Problem& problem : problems) searches.emplace_back(problem, control);
  for (std::int64_t k = 2; k <= max_trees; ++k) {
    if (control.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
    control.Report("trees per root", static_cast<double>(k) / static_cast<double>(max_trees));
    if (!best) {
      best = count_fixed(k);
      continue;
    }
    const Rational slowest = std::ranges::max(*best, {}, &TreeCount::inverse_rate).inverse_rate;
    if (slowest == optimality.inverse_rate) break;
    // Only a scale below k * (the best U / k so far) is an improvement.
    const auto floor = Rational::Product(optimality.inverse_rate, Rational(k, 1));
    const auto ceiling = Rational::Product(slowest, Rational(k, 1));
    if (!floor || !ceiling) return Overflow();
    std::vector<TreeCount> counts;
    for (std::size_t p = 0; p < problems.size() && counts.size() == p; ++p) {
      Result<std::optional<Rational>> better = searches[p].FindBelow(k, *floor, *ceiling);
      if (!better) return Propagate(better);
      if (!*better) continue;
      if (auto count = FinishFixed(problems[p], **better, k)) counts.push_back(std::move(*count));
    }
    if (counts.size() == problems.size()) best = std::move(counts);
  }
  return best;
}

}  // namespace espalier::forest
