#include "collective/forest/ecmp/ecmp_forest.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "collective/forest/ecmp/ecmp_routes.h"

namespace espalier::forest {
namespace {

// The relative price of a level of depth in each round of growing all trees. Which price is best
// depends on which links are narrow.
constexpr double kDepthPrices[] = {0.1, 0.1, 0.03, 0.3, 0.1, 0, 1, 0.1, 0.03, 0.3, 0.1, 0};

double Power7(double x) {
  const double square = x * x;
  return square * square * square * x;
}

struct Edge {
  Rank parent = kNoRank;
  EcmpRoutes::RouteSegments segments;
  std::size_t middle = 0;  // index into segments.middle
};
using Tree = std::vector<Edge>;  // by rank; the root has no parent

class Packer {
 public:
  Packer(const fabric::Topology& topology, const Problem& problem, const EcmpForestOptions& options,
         const Control& control)
      : problem_(problem),
        options_(options),
        control_(control),
        routes_(topology, problem, options.reversed),
        load_(problem.arcs.size(), 0),
        cost_(problem.arcs.size()) {
    for (std::size_t a = 0; a < load_.size(); ++a) UpdateCost(a);
  }

  Result<Forest> Run() {
    for (std::int32_t r = 0; r < problem_.rank_count; ++r) {
      const std::int64_t trees =
          options_.trees_per_weight * problem_.weight[static_cast<std::size_t>(r)];
      roots_.insert(roots_.end(), static_cast<std::size_t>(trees), static_cast<Rank>(r));
    }
    // Orders the trees so that each root gets one tree in turn.
    std::vector<std::pair<std::int64_t, std::size_t>> keys;
    for (std::size_t t = 0; t < roots_.size(); ++t) {
      const bool same = t > 0 && roots_[t] == roots_[t - 1];
      keys.emplace_back(same ? keys.back().first + 1 : 0, t);
    }
    std::sort(keys.begin(), keys.end());
    trees_.resize(roots_.size());
    std::size_t round = 0;
    for (const double price : kDepthPrices) {
      depth_price_ = price;
      for (const auto& [turn, t] : keys) {
        if (control_.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
        AddLoad(trees_[t], -1);
        if (auto grown = Grow(roots_[t], trees_[t]); !grown) return Propagate(grown);
      }
      Keep();
      control_.Report("packing", static_cast<double>(++round) / std::size(kDepthPrices));
    }
    return Finish();
  }

 private:
  void UpdateCost(std::size_t arc) {
    const auto capacity = static_cast<double>(problem_.arcs[arc].capacity);
    cost_[arc] = Power7(static_cast<double>(load_[arc] + 1) / capacity) / capacity;
  }

  void AddLoad(std::span<const std::int32_t> hops, std::int64_t units) {
    for (const std::int32_t hop : hops) {
      const auto arc = static_cast<std::size_t>(hop);
      load_[arc] += units;
      UpdateCost(arc);
    }
  }
  void AddLoad(const Edge& edge, std::int64_t units) {
    AddLoad(*edge.segments.out, units);
    AddLoad(edge.segments.middle[edge.middle], units);
    AddLoad(*edge.segments.in, units);
  }
  void AddLoad(const Tree& tree, std::int64_t units) {
    for (const Edge& edge : tree) {
      if (edge.parent != kNoRank) AddLoad(edge, units);
    }
  }

  double CostOf(std::span<const std::int32_t> hops) const {
    double cost = 0;
    for (const std::int32_t hop : hops) cost += cost_[static_cast<std::size_t>(hop)];
    return cost;
  }

  struct Choice {
    double cost = 0;
    Edge edge;
  };
  // Finds the cheapest route into a rank from a rank of the tree.
  std::optional<Choice> FindEdge(Rank to, std::span<const Rank> inside,
                                 std::span<const std::int32_t> depth) {
    std::optional<Choice> best;
    for (const Rank from : inside) {
      const EcmpRoutes::RouteSegments segments = routes_.Between(from, to);
      if (!segments.exist()) continue;
      const double ends = CostOf(*segments.out) + CostOf(*segments.in);
      for (std::size_t m = 0; m < segments.middle.size(); ++m) {
        const double cost = (ends + CostOf(segments.middle[m])) * (1 + depth_price_ * depth[from]);
        if (!best || cost < best->cost) best = Choice{cost, {from, segments, m}};
      }
    }
    return best;
  }

  // Problem: grow one tree on top of the current loads, as cheaply as possible.
  //
  // Idea: Prim's algorithm with lazy evaluation. Loads only rise while a tree grows, so the cost
  // that a rank had earlier is a lower bound on its current cost. Only routes from the rank that
  // joined last can be cheaper, and these are evaluated as it joins.
  //
  // Invariant: choice[r] holds a route whose recorded cost is at most that of any route into r from
  // the tree. A rank is attached only if its recomputed cost has not risen.
  //
  // Cost: ranks * (ranks + re-evaluated routes) route costs. Source: after Prim; the choice of cost
  // is this project's own.
  Result<void> Grow(Rank root, Tree& tree) {
    const auto ranks = static_cast<std::size_t>(problem_.rank_count);
    tree.assign(ranks, {});
    std::vector<std::int32_t> depth(ranks, 0);
    std::vector<Rank> inside{root};
    std::vector<std::optional<Choice>> choice(ranks);
    std::vector<Rank> outside;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (r != root) outside.push_back(static_cast<Rank>(r));
    }
    while (!outside.empty()) {
      for (const Rank to : outside) {
        auto latest = FindEdge(to, {&inside.back(), 1}, depth);
        if (latest && (!choice[to] || latest->cost < choice[to]->cost)) choice[to] = latest;
      }
      const auto next = TakeCheapest(outside, inside, depth, choice);
      if (!next) {
        return Fail(
            ErrorCode::kFailedPrecondition,
            fmt::format(
                "no path that ECMP would take leads from {} to {}, directly or over other ranks",
                problem_.names[root], problem_.names[outside.front()]));
      }
      tree[*next] = choice[*next]->edge;
      AddLoad(tree[*next], 1);
      depth[*next] = depth[tree[*next].parent] + 1;
      inside.push_back(*next);
    }
    return {};
  }

  std::optional<Rank> TakeCheapest(std::vector<Rank>& outside, std::span<const Rank> inside,
                                   std::span<const std::int32_t> depth,
                                   std::vector<std::optional<Choice>>& choice) {
    while (true) {
      std::optional<std::size_t> best;
      for (std::size_t i = 0; i < outside.size(); ++i) {
        const auto& own = choice[outside[i]];
        if (own && (!best || own->cost < choice[outside[*best]]->cost)) best = i;
      }
      if (!best) return std::nullopt;
      const Rank to = outside[*best];
      const double before = choice[to]->cost;
      choice[to] = FindEdge(to, inside, depth);
      if (choice[to]->cost > before) continue;  // the cost has risen: another rank may be cheaper
      outside.erase(outside.begin() + static_cast<std::ptrdiff_t>(*best));
      return to;
    }
  }

  Rational Slowest() const {
    Rational slowest;
    for (std::size_t a = 0; a < load_.size(); ++a) {
      slowest = std::max(slowest, Rational(load_[a], problem_.arcs[a].capacity));
    }
    return slowest;
  }

  void Keep() {
    const Rational slowest = Slowest();
    if (!best_.empty() && slowest >= scale_) return;
    scale_ = slowest;
    best_ = trees_;
  }

  static bool AreSame(const Tree& x, const Tree& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Edge& a, const Edge& b) {
      return a.parent == b.parent && a.middle == b.middle;
    });
  }

  EcmpRoutes::Hops HopsOf(const Edge& edge) const {
    EcmpRoutes::Hops hops = *edge.segments.out;
    const EcmpRoutes::Hops& middle = edge.segments.middle[edge.middle];
    hops.insert(hops.end(), middle.begin(), middle.end());
    hops.insert(hops.end(), edge.segments.in->begin(), edge.segments.in->end());
    return hops;
  }

  // Merges identical trees into classes and lists the routes of each arc in the order of the
  // classes.
  Result<Forest> Finish() {
    Forest forest;
    forest.rank_count = problem_.rank_count;
    forest.trees_per_weight = options_.trees_per_weight;
    forest.scale = scale_;
    const auto rate = Rational::Quotient(scale_, Rational(options_.trees_per_weight, 1));
    if (!rate) return Fail(ErrorCode::kResourceExhausted, "the exact rate exceeds 127 bits");
    forest.inverse_rate = *rate;
    std::map<std::pair<Rank, Rank>, std::vector<std::pair<std::int64_t, EcmpRoutes::Hops>>> routes;
    for (std::size_t t = 0; t < best_.size();) {
      std::size_t end = t + 1;
      while (end < best_.size() && roots_[end] == roots_[t] && AreSame(best_[end], best_[t])) ++end;
      const auto count = static_cast<std::int64_t>(end - t);
      forest.classes.push_back({roots_[t], count});
      for (std::size_t r = 0; r < best_[t].size(); ++r) {
        const Edge& edge = best_[t][r];
        forest.parents.push_back(edge.parent);
        if (edge.parent == kNoRank) continue;
        routes[{edge.parent, static_cast<Rank>(r)}].emplace_back(count, HopsOf(edge));
      }
      t = end;
    }
    for (const auto& [ends, of_arc] : routes) {
      forest.routes.AddArc(ends.first, ends.second);
      for (std::size_t i = 0; i < of_arc.size();) {
        std::int64_t count = 0;
        const EcmpRoutes::Hops& hops = of_arc[i].second;
        for (; i < of_arc.size() && of_arc[i].second == hops; ++i) count += of_arc[i].first;
        forest.routes.AddRoute(count, hops);
      }
    }
    forest.routes.Index(problem_.rank_count);
    return forest;
  }

  const Problem& problem_;
  const EcmpForestOptions& options_;
  const Control& control_;
  EcmpRoutes routes_;
  std::vector<std::int64_t> load_;  // trees, by arc
  std::vector<double> cost_;        // by arc: the cost of one more tree
  std::vector<Rank> roots_;         // by tree
  std::vector<Tree> trees_;
  std::vector<Tree> best_;
  double depth_price_ = 0;
  Rational scale_;  // of the best forest
};

}  // namespace

Result<Forest> BuildEcmpForest(const fabric::Topology& topology, const Problem& problem,
                               const EcmpForestOptions& options, const Control& control) {
  return Packer(topology, problem, options, control).Run();
}

}  // namespace espalier::forest
