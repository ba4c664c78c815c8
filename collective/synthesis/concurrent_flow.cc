#include "collective/synthesis/concurrent_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

#include "collective/synthesis/all_to_all.h"
#include "collective/synthesis/integer_simplex.h"

namespace espalier::synthesis {
namespace {

using forest::Int128;
using forest::Rational;

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

tl::unexpected<Error> TooExact() {
  return Fail(ErrorCode::kResourceExhausted, "the exact rate exceeds 127 bits");
}

// The arcs out of every node.
std::vector<std::vector<std::int32_t>> FindOutgoing(const Digraph& graph) {
  std::vector<std::vector<std::int32_t>> out(At(graph.node_count()));
  for (std::size_t a = 0; a < graph.arcs().size(); ++a) {
    out[At(graph.arcs()[a].tail)].push_back(static_cast<std::int32_t>(a));
  }
  return out;
}

// A tree of shortest paths: the arc into every node (-1 at the source), and the nodes in the order
// of their distances.
struct ShortestTree {
  std::vector<std::int32_t> arc_into;
  std::vector<std::int32_t> order;
  std::vector<Int128> distance;
};

// Dijkstra's algorithm. Equal paths go to the one with fewer links.
void FindShortestTree(const Digraph& graph, const std::vector<std::vector<std::int32_t>>& outgoing,
                      std::int32_t source, const std::vector<Int128>& length, ShortestTree& tree) {
  using Entry = std::tuple<Int128, std::int32_t, std::int32_t, std::int32_t>;
  const std::size_t count = At(graph.node_count());
  tree.arc_into.assign(count, -1);
  tree.order.clear();
  tree.distance.assign(count, -1);
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  open.emplace(0, 0, source, -1);
  while (!open.empty()) {
    const auto [distance, hops, node, arc] = open.top();
    open.pop();
    if (tree.distance[At(node)] >= 0) continue;
    tree.distance[At(node)] = distance;
    tree.arc_into[At(node)] = arc;
    tree.order.push_back(node);
    for (const std::int32_t next : outgoing[At(node)]) {
      const std::int32_t head = graph.arcs()[At(next)].head;
      if (tree.distance[At(head)] >= 0) continue;
      open.emplace(distance + length[At(next)], hops + 1, head, next);
    }
  }
}

// Adds the number of messages of the tree's source that take each arc.
void AddLoads(const Digraph& graph, const ShortestTree& tree, std::vector<std::int64_t>& load) {
  std::vector<std::int64_t> below(tree.order.size(), 1);
  for (auto node = tree.order.rbegin(); node != tree.order.rend(); ++node) {
    const std::int32_t arc = tree.arc_into[At(*node)];
    if (arc < 0) continue;
    load[At(arc)] += below[At(*node)];
    below[At(graph.arcs()[At(arc)].tail)] += below[At(*node)];
  }
}

// The exact solution on a network with translations.
class CayleyFlow {
 public:
  CayleyFlow(const Digraph& graph, const Translations& translations)
      : graph_(graph), translations_(translations), outgoing_(FindOutgoing(graph)) {
    // The orbits of arcs; that of an arc and that of its reverse have one price, as x -> -x is a
    // symmetry if every arc has a reverse.
    const bool both = graph.IsBidirectional();
    std::map<std::int32_t, std::size_t> row_of;
    for (const Arc& arc : graph.arcs()) {
      std::int32_t step = translations.Move(arc.head, translations.Negate(arc.tail));
      if (both) step = std::min(step, translations.Negate(step));
      const auto [found, is_new] = row_of.emplace(step, capacity_.size());
      if (is_new) capacity_.push_back(0);
      if (arc.tail == 0) capacity_[found->second] += arc.capacity;
      row_.push_back(found->second);
    }
    mirrored_ = both;
  }

  Result<AllToAll> Solve() {
    IntegerSimplex simplex(capacity_);
    std::vector<Int128> price(capacity_.size(), 1);
    Int128 limit = std::numeric_limits<Int128>::max();  // the first tree is always new
    while (true) {
      ShortestTree& tree = trees_.emplace_back();
      std::vector<Int128> length(graph_.arcs().size());
      for (std::size_t a = 0; a < length.size(); ++a) length[a] = price[row_[a]];
      FindShortestTree(graph_, outgoing_, 0, length, tree);
      const Int128 sum = std::accumulate(tree.distance.begin(), tree.distance.end(), Int128{0});
      if (trees_.size() > 1 && sum >= limit) break;
      simplex.AddColumn(LoadsOf(tree));
      if (!simplex.Solve()) return TooExact();
      Int128 highest = 0;
      for (std::size_t i = 0; i < price.size(); ++i) {
        price[i] = simplex.Price(i);
        highest = std::max(highest, price[i]);
      }
      limit = simplex.denominator();
      // Keeps sums of distances within 127 bits.
      if (highest >
          std::numeric_limits<Int128>::max() / graph_.node_count() / graph_.node_count()) {
        return TooExact();
      }
    }
    trees_.pop_back();
    AllToAll all{Rational(simplex.Objective(), simplex.denominator()), {}, {}};
    all.bound = all.rate;
    for (std::size_t t = 0; t < trees_.size(); ++t) {
      if (simplex.Value(t) == 0) continue;
      AddRouting(trees_[t], Rational(simplex.Value(t), simplex.Objective()), all.routing);
    }
    std::stable_sort(
        all.routing.begin(), all.routing.end(),
        [](const RoutingTree& x, const RoutingTree& y) { return x.source < y.source; });
    return all;
  }

 private:
  std::vector<std::int64_t> LoadsOf(const ShortestTree& tree) const {
    std::vector<std::int64_t> load(graph_.arcs().size(), 0);
    AddLoads(graph_, tree, load);
    std::vector<std::int64_t> by_row(capacity_.size(), 0);
    for (std::size_t a = 0; a < load.size(); ++a) by_row[row_[a]] += load[a];
    return by_row;
  }

  // Adds the tree, moved to every node, and for links of both directions its mirror image.
  void AddRouting(const ShortestTree& tree, Rational share, std::vector<RoutingTree>& routing) {
    const std::int32_t count = graph_.node_count();
    if (mirrored_) share = Rational(share.numerator(), 2 * share.denominator());
    for (const bool mirror : {false, true}) {
      if (mirror && !mirrored_) break;
      for (std::int32_t by = 0; by < count; ++by) {
        RoutingTree& moved = routing.emplace_back();
        moved.source = by;
        moved.share = share;
        moved.parent.assign(At(count), -1);
        const auto image = [&](std::int32_t node) {
          return translations_.Move(mirror ? translations_.Negate(node) : node, by);
        };
        for (const std::int32_t node : tree.order) {
          const std::int32_t arc = tree.arc_into[At(node)];
          if (arc < 0) continue;
          moved.parent[At(image(node))] = image(graph_.arcs()[At(arc)].tail);
        }
      }
    }
  }

  const Digraph& graph_;
  const Translations& translations_;
  std::vector<std::vector<std::int32_t>> outgoing_;
  std::vector<std::int64_t> capacity_;  // of the arcs out of node 0, by row
  std::vector<std::size_t> row_;        // by arc
  bool mirrored_ = false;
  std::vector<ShortestTree> trees_;
};

// Rounds the shares of one source to whole parts, those with the largest remainders up.
void RoundShares(std::span<RoutingTree> trees, std::int64_t parts) {
  std::vector<std::pair<Rational, std::size_t>> rest;
  std::vector<std::int64_t> count;
  std::int64_t left = parts;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const Int128 scaled = trees[i].share.numerator() * parts;
    const Int128 denominator = trees[i].share.denominator();
    count.push_back(static_cast<std::int64_t>(scaled / denominator));
    left -= count.back();
    rest.emplace_back(Rational(scaled % denominator, denominator), i);
  }
  std::stable_sort(rest.begin(), rest.end(),
                   [](const auto& x, const auto& y) { return x.first > y.first; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % rest.size(), --left) ++count[rest[i].second];
  // Shares that sum to a little more than 1.
  for (std::size_t i = 0; left < 0; i = (i + 1) % count.size()) {
    if (count[i] == 0) continue;
    --count[i];
    ++left;
  }
  for (std::size_t i = 0; i < trees.size(); ++i) trees[i].share = Rational(count[i], parts);
}

// Rounds all shares to whole parts and computes the rate that remains.
Result<AllToAll> InParts(const Digraph& graph, AllToAll all, std::int64_t parts) {
  for (std::size_t begin = 0, end = 0; begin < all.routing.size(); begin = end) {
    while (end < all.routing.size() && all.routing[end].source == all.routing[begin].source) ++end;
    RoundShares(std::span(all.routing).subspan(begin, end - begin), parts);
  }
  std::erase_if(all.routing, [](const RoutingTree& tree) { return tree.share.IsZero(); });
  const auto cost = VerifyAllToAll(graph, all);
  if (!cost) return tl::unexpected<Error>(cost.error());
  all.rate = Rational(cost->overlapped.denominator(), cost->overlapped.numerator());
  return all;
}

// The game on any network.
class RoutingGame {
 public:
  // The demand has an entry for each pair.
  RoutingGame(const Digraph& graph, const Demand& demand)
      : graph_(graph),
        demand_(demand),
        outgoing_(FindOutgoing(graph)),
        trees_(At(graph.node_count())),
        link_regret_(graph.arcs().size(), 0),
        link_share_(graph.arcs().size(), 1.0 / static_cast<double>(graph.arcs().size())),
        link_mean_(link_share_) {}

  Result<AllToAll> Run(const AllToAllOptions& options) {
    AllToAll all;
    all.demand = demand_;
    for (int round = 0; round == 0 || work_ < options.max_work; ++round) {
      const Rational bound = AddTrees();
      if (round == 0 || bound < all.bound) all.bound = bound;
      const double worst = Play(kIterations);
      if (all.bound.ToDouble() * worst <= 1 + options.gap / 2) break;
    }
    const std::int64_t parts = options.parts > 0 ? options.parts : kFineParts;
    for (std::int32_t source = 0; source < graph_.node_count(); ++source) {
      for (const Choice& choice : trees_[At(source)]) {
        RoutingTree& tree = all.routing.emplace_back();
        tree.source = source;
        tree.share = Rational(std::llround(choice.mean * kFineParts), kFineParts);
        for (const std::int32_t arc : choice.arc_into) {
          tree.parent.push_back(arc < 0 ? -1 : graph_.arcs()[At(arc)].tail);
        }
      }
    }
    return InParts(graph_, std::move(all), parts);
  }

 private:
  static constexpr int kIterations = 25;
  static constexpr std::int64_t kFineParts = 1 << 20;

  // A tree of a source and how it is mixed.
  struct Choice {
    std::vector<std::int32_t> arc_into;
    std::vector<std::int64_t> below;  // by node: the demand that takes the arc into it
    double regret = 0;
    double share = 0;
    double mean = 0;
    double cost = 0;
  };

  // Adds the shortest trees for the mixed links; returns the bound that their lengths prove.
  Rational AddTrees() {
    constexpr double kOne = static_cast<double>(std::int64_t{1} << 40);
    const double highest = *std::ranges::max_element(link_mean_);
    std::vector<Int128> length;
    Int128 volume = 0;
    for (std::size_t a = 0; a < link_mean_.size(); ++a) {
      const std::int64_t capacity = graph_.arcs()[a].capacity;
      length.push_back(
          std::llround(kOne * link_mean_[a] / highest / static_cast<double>(capacity)));
      volume += length[a] * capacity;
    }
    Int128 distances = 0;
    ShortestTree tree;
    for (std::int32_t source = 0; source < graph_.node_count(); ++source) {
      FindShortestTree(graph_, outgoing_, source, length, tree);
      const std::span<const std::int64_t> demand(&demand_[At(source) * trees_.size()],
                                                 trees_.size());
      for (std::size_t node = 0; node < demand.size(); ++node) {
        distances += tree.distance[node] * demand[node];
      }
      AddTree(tree, demand, trees_[At(source)]);
    }
    return {volume, std::max<Int128>(distances, 1)};
  }

  void AddTree(const ShortestTree& tree, std::span<const std::int64_t> demand,
               std::vector<Choice>& choices) const {
    for (const Choice& choice : choices) {
      if (choice.arc_into == tree.arc_into) return;
    }
    Choice& added = choices.emplace_back();
    added.arc_into = tree.arc_into;
    added.below.assign(demand.begin(), demand.end());
    for (auto node = tree.order.rbegin(); node != tree.order.rend(); ++node) {
      const std::int32_t arc = tree.arc_into[At(*node)];
      if (arc >= 0) {
        added.below[At(graph_.arcs()[At(arc)].tail)] += added.below[At(*node)];
      }
    }
    added.share = choices.size() == 1 ? 1 : 0;
  }

  // Plays rounds of regret matching; leaves the means of both sides and returns the highest
  // relative load of the mean routing.
  double Play(int iterations) {
    for (auto& choices : trees_) {
      for (Choice& choice : choices) choice.mean = 0;
    }
    std::ranges::fill(link_mean_, 0);
    std::vector<double> mean_load(link_share_.size(), 0);
    double total = 0;
    for (int i = 1; i <= iterations; ++i) {
      for (const auto& choices : trees_) {
        work_ += 2 * static_cast<std::int64_t>(choices.size() * trees_.size());
      }
      const std::vector<double> load = ComputeLoads();
      total += i;
      for (std::size_t a = 0; a < load.size(); ++a) {
        link_mean_[a] += i * link_share_[a];
        mean_load[a] += i * load[a];
      }
      for (auto& choices : trees_) {
        for (Choice& choice : choices) choice.mean += i * choice.share;
      }
      MatchLinks(load);
      for (auto& choices : trees_) MatchTrees(choices);
    }
    for (double& share : link_mean_) share /= total;
    for (auto& choices : trees_) {
      for (Choice& choice : choices) choice.mean /= total;
    }
    return *std::ranges::max_element(mean_load) / total;
  }

  // Returns the load of every arc over its capacity.
  std::vector<double> ComputeLoads() const {
    std::vector<double> load(link_share_.size(), 0);
    for (const auto& choices : trees_) {
      for (const Choice& choice : choices) {
        if (choice.share == 0) continue;
        for (std::size_t node = 0; node < choice.arc_into.size(); ++node) {
          const std::int32_t arc = choice.arc_into[node];
          if (arc >= 0) load[At(arc)] += choice.share * static_cast<double>(choice.below[node]);
        }
      }
    }
    for (std::size_t a = 0; a < load.size(); ++a) {
      load[a] /= static_cast<double>(graph_.arcs()[a].capacity);
    }
    return load;
  }

  void MatchLinks(const std::vector<double>& load) {
    const double value = std::inner_product(load.begin(), load.end(), link_share_.begin(), 0.0);
    double sum = 0;
    for (std::size_t a = 0; a < load.size(); ++a) {
      link_regret_[a] = std::max(0.0, link_regret_[a] + load[a] - value);
      sum += link_regret_[a];
    }
    if (sum <= 0) return;
    for (std::size_t a = 0; a < load.size(); ++a) link_share_[a] = link_regret_[a] / sum;
  }

  void MatchTrees(std::vector<Choice>& choices) const {
    double value = 0;
    for (Choice& choice : choices) {
      choice.cost = 0;
      for (std::size_t node = 0; node < choice.arc_into.size(); ++node) {
        const std::int32_t arc = choice.arc_into[node];
        if (arc < 0) continue;
        choice.cost += static_cast<double>(choice.below[node]) * link_share_[At(arc)] /
                       static_cast<double>(graph_.arcs()[At(arc)].capacity);
      }
      value += choice.share * choice.cost;
    }
    double sum = 0;
    for (Choice& choice : choices) {
      choice.regret = std::max(0.0, choice.regret + value - choice.cost);
      sum += choice.regret;
    }
    if (sum <= 0) return;
    for (Choice& choice : choices) choice.share = choice.regret / sum;
  }

  const Digraph& graph_;
  const Demand& demand_;
  std::vector<std::vector<std::int32_t>> outgoing_;
  std::vector<std::vector<Choice>> trees_;  // by source
  std::int64_t work_ = 0;                   // nodes of trees that were visited
  std::vector<double> link_regret_;         // by arc
  std::vector<double> link_share_;
  std::vector<double> link_mean_;
};

Result<void> CheckDemand(const Digraph& graph, const Demand& demand) {
  const std::size_t count = At(graph.node_count());
  if (demand.empty()) return {};
  if (demand.size() != count * count) {
    return Fail(ErrorCode::kInvalidArgument, "the demand is for another number of nodes");
  }
  for (std::size_t pair = 0; pair < demand.size(); ++pair) {
    const bool is_own = pair / count == pair % count;
    if (demand[pair] >= 0 && demand[pair] <= (is_own ? 0 : kMaxDemand)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the demand of {} from node {} to node {} is out of range (give 0 to "
                            "{}, and nothing to the node itself)",
                            demand[pair], pair / count, pair % count, kMaxDemand));
  }
  if (std::ranges::all_of(demand, [](std::int64_t one) { return one == 0; })) {
    return Fail(ErrorCode::kInvalidArgument, "no node has any demand");
  }
  return {};
}

// 1 for every pair of different nodes.
Demand EqualDemand(const Digraph& graph) {
  const std::size_t count = At(graph.node_count());
  Demand demand(count * count, 1);
  for (std::size_t node = 0; node < count; ++node) demand[node * count + node] = 0;
  return demand;
}

}  // namespace

Result<AllToAll> ComputeAllToAll(const Digraph& graph, const AllToAllOptions& options,
                                 Demand demand) {
  if (graph.node_count() < 2) {
    return Fail(ErrorCode::kFailedPrecondition, "a schedule needs at least two nodes");
  }
  if (auto ok = CheckConnected(graph); !ok) return Propagate(ok);
  if (auto ok = CheckDemand(graph, demand); !ok) return Propagate(ok);
  const bool is_equal = demand.empty();
  if (const auto translations = Translations::Find(graph); translations && is_equal) {
    auto all = CayleyFlow(graph, *translations).Solve();
    if (all && options.parts > 0) return InParts(graph, std::move(*all), options.parts);
    if (all) return all;
  }
  if (graph.node_count() > kMaxRoutedNodes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("an all-to-all of {} nodes is too large without translations (at most "
                            "{})",
                            graph.node_count(), kMaxRoutedNodes));
  }
  if (is_equal) demand = EqualDemand(graph);
  auto all = RoutingGame(graph, demand).Run(options);
  if (all && is_equal) all->demand.clear();
  return all;
}

}  // namespace espalier::synthesis
