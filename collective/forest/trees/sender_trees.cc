#include "collective/forest/trees/sender_trees.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "collective/forest/routable.h"

namespace espalier::forest {

SenderTrees::SenderTrees(const Problem& problem, const TreeCount& count, const Forest& forest,
                         const SenderPorts& ports)
    : problem_(problem),
      ports_(ports),
      ranks_(static_cast<std::size_t>(problem.rank_count)),
      left_(count.capacity) {
  entries_.reserve(forest.parents.size());
  VisitRoutedTrees(forest, [&](const RoutedTree& routed) {
    Add(forest.routes, routed);
    return true;
  });
  heights_.resize(roots_.size());
  labels_.resize(entries_.size());
}

void SenderTrees::Add(const RoutingTable& routes, const RoutedTree& routed) {
  const auto tree = static_cast<std::uint32_t>(roots_.size());
  roots_.push_back(routed.root);
  counts_.push_back(routed.count);
  entries_.resize(entries_.size() + ranks_);
  for (const TreeEdge& edge : routed.edges) {
    const SenderPorts::Halves halves = ports_.OfRoute(routes.IndexOf(*edge.route));
    At({tree, edge.child}) = {edge.parent, halves.out, halves.in};
    Take(ports_.Out(edge.parent, halves.out), routed.count);
    Take(ports_.In(edge.child, halves.in), routed.count);
  }
}

void SenderTrees::Take(const SenderPort& port, std::int64_t trees) {
  for (const std::int32_t hop : ports_.Hops(port)) left_[static_cast<std::size_t>(hop)] -= trees;
}

bool SenderTrees::HasRoom(const SenderPort& port, std::int64_t trees) const {
  const auto hops = ports_.Hops(port);
  return std::all_of(hops.begin(), hops.end(), [&](std::int32_t hop) {
    return left_[static_cast<std::size_t>(hop)] >= trees;
  });
}

bool SenderTrees::HasRoomForBoth(const Edge& x, const SenderPort& out_x, const Edge& y,
                                 const SenderPort& out_y) {
  const std::int64_t trees_x = CountOf(x.tree);
  const std::int64_t trees_y = CountOf(y.tree);
  Take(OutOf(x), -trees_x);
  Take(OutOf(y), -trees_y);
  bool has = HasRoom(out_x, trees_x);
  if (has) {
    Take(out_x, trees_x);
    has = HasRoom(out_y, trees_y);
    Take(out_x, -trees_x);
  }
  Take(OutOf(x), trees_x);
  Take(OutOf(y), trees_y);
  return has;
}

void SenderTrees::SetSender(const Edge& edge, const Sender& sender) {
  Take(OutOf(edge), -CountOf(edge.tree));
  Entry& entry = At(edge);
  entry.parent = sender.rank;
  entry.out = sender.out;
  labels_[edge.tree * ranks_ + edge.child] =
      static_cast<Label>(LabelOf(edge.tree, sender.rank) + 1);
  Take(OutOf(edge), CountOf(edge.tree));
}

Heights SenderTrees::SetLabels() {
  Heights heights;
  double sum = 0;
  double trees = 0;
  for (std::uint32_t t = 0; t < TreeCountOf(); ++t) {
    heights_[t] = SetLabelsOf(t);
    heights.max = std::max(heights.max, heights_[t]);
    sum += static_cast<double>(heights_[t]) * static_cast<double>(counts_[t]);
    trees += static_cast<double>(counts_[t]);
  }
  heights.mean = trees > 0 ? sum / trees : 0;
  return heights;
}

std::int32_t SenderTrees::SetLabelsOf(std::uint32_t tree) {
  constexpr Label kUnknown = 0xFFFF;
  const Entry* const row = entries_.data() + tree * ranks_;
  Label* const labels = labels_.data() + tree * ranks_;
  std::fill(labels, labels + ranks_, kUnknown);
  labels[roots_[tree]] = 0;
  std::size_t height = 0;
  for (std::size_t start = 0; start < ranks_; ++start) {
    // Up to a rank whose depth is known, then down again from there.
    std::size_t steps = 0;
    std::size_t at = start;
    for (; labels[at] == kUnknown; at = row[at].parent) ++steps;
    std::size_t below = labels[at] + steps;
    height = std::max(height, below);
    for (at = start; labels[at] == kUnknown; at = row[at].parent) {
      labels[at] = static_cast<Label>(below--);
    }
  }
  return static_cast<std::int32_t>(height);
}

Forest SenderTrees::Collect(const Forest& original) const {
  Forest forest;
  forest.method = original.method;
  forest.rank_count = original.rank_count;
  forest.trees_per_weight = original.trees_per_weight;
  forest.scale = original.scale;
  forest.inverse_rate = original.inverse_rate;
  forest.fallbacks = original.fallbacks;
  for (std::size_t t = 0; t < roots_.size(); ++t) {
    forest.classes.push_back({roots_[t], counts_[t]});
  }
  forest.parents.resize(entries_.size());
  std::transform(entries_.begin(), entries_.end(), forest.parents.begin(),
                 [](const Entry& entry) { return entry.parent; });
  CollectRoutes(forest.routes);
  forest.routes.Index(forest.rank_count);
  forest.unroutable_edges = CountUnroutableEdges(problem_, forest);
  return forest;
}

void SenderTrees::CollectRoutes(RoutingTable& routes) const {
  constexpr std::size_t kBlock = 8;  // ranks; one cache line of entries
  std::array<std::vector<Use>, kBlock> uses;
  for (std::size_t first = 0; first < ranks_; first += kBlock) {
    const std::size_t size = std::min(kBlock, ranks_ - first);
    for (std::size_t i = 0; i < size; ++i) uses[i].clear();
    for (std::uint32_t t = 0; t < roots_.size(); ++t) {
      for (std::size_t i = 0; i < size; ++i) {
        const Entry& entry = At({t, static_cast<Rank>(first + i)});
        if (entry.parent != kNoRank) uses[i].push_back({entry.parent, entry.out, entry.in, t});
      }
    }
    for (std::size_t i = 0; i < size; ++i) {
      AddRoutesTo(static_cast<Rank>(first + i), uses[i], routes);
    }
  }
}

// Arc by arc, its routes in the order of the trees: so units are handed out.
void SenderTrees::AddRoutesTo(Rank child, std::vector<Use>& uses, RoutingTable& routes) const {
  std::sort(uses.begin(), uses.end(), [](const Use& x, const Use& y) {
    return x.parent != y.parent ? x.parent < y.parent : x.tree < y.tree;
  });
  std::vector<std::int32_t> hops;
  for (auto use = uses.begin(); use != uses.end();) {
    if (use == uses.begin() || std::prev(use)->parent != use->parent) {
      routes.AddArc(use->parent, child);
    }
    const auto end = std::find_if(use, uses.end(), [&](const Use& other) {
      return other.parent != use->parent || other.out != use->out || other.in != use->in;
    });
    const auto up = ports_.Hops(ports_.Out(use->parent, use->out));
    const auto down = ports_.Hops(ports_.In(child, use->in));
    hops.assign(up.begin(), up.end());
    hops.insert(hops.end(), down.begin(), down.end());
    std::int64_t trees = 0;
    for (; use != end; ++use) trees += counts_[use->tree];
    routes.AddRoute(trees, hops);
  }
}

}  // namespace espalier::forest
