#include "collective/forest/trees/tree_table.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "collective/forest/model/routable.h"
#include "common/base/check.h"

namespace espalier::forest {

static_assert(HalfRoutes::kMaxHalfRoutes - 1 <= std::numeric_limits<std::uint8_t>::max());

TreeTable::TreeTable(const Problem& problem, const TreeCount& count, const Forest& forest,
                     const HalfRoutes& half_routes)
    : problem_(problem),
      half_routes_(half_routes),
      ranks_(static_cast<std::size_t>(problem.rank_count)),
      left_(count.capacity) {
  in_.reserve(forest.parents.size());
  Read(forest);
  parents_.assign(in_.size(), kNoRank);
  out_.assign(in_.size(), 0);
}

TreeTable::TreeTable(const Problem& problem, const TreeCount& count, const HalfRoutes& half_routes)
    : problem_(problem),
      half_routes_(half_routes),
      ranks_(static_cast<std::size_t>(problem.rank_count)),
      left_(count.capacity) {
  // Single trees fit best. If there are many, each root gets as many classes as memory allows.
  constexpr std::int64_t kMaxEdges = std::int64_t{1} << 26;
  const auto square = static_cast<std::int64_t>(ranks_ * ranks_);
  const std::int64_t classes = std::clamp<std::int64_t>(kMaxEdges / square, 1, 16);
  for (std::size_t root = 0; root < ranks_; ++root) {
    std::int64_t trees = problem.weight[root] * count.trees_per_weight;
    for (std::int64_t left = std::min(trees, classes); left > 0; --left) {
      roots_.push_back(static_cast<Rank>(root));
      counts_.push_back(trees / left);
      trees -= counts_.back();
    }
  }
  in_.assign(roots_.size() * ranks_, 0);
  for (std::size_t r = 0; r < ranks_; ++r) {
    const auto in = half_routes.FindIn(static_cast<Rank>(r), static_cast<std::int32_t>(r));
    ESPALIER_CHECK(in.has_value(), "rank {} has no direct link", r);
    for (std::size_t t = 0; t < roots_.size(); ++t) {
      in_[t * ranks_ + r] = static_cast<std::uint8_t>(*in);
    }
  }
  parents_.assign(in_.size(), kNoRank);
  out_.assign(in_.size(), 0);
}

// The units of a logical arc are assigned class by class, route by route (Forest). A class is
// divided if one of its edges reaches the end of a route.
void TreeTable::Read(const Forest& forest) {
  struct Position {
    std::int32_t route = 0;
    std::int64_t used = 0;
  };
  const RoutingTable& routes = forest.routes;
  std::vector<Position> positions(routes.ArcCount());
  std::vector<Rank> last(ranks_, kNoRank);  // by child: the parent to which `arcs` refers
  std::vector<std::size_t> arcs(ranks_);
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    const std::span<const Rank> parents = forest.Parents(c);
    const TreeClass& tree = forest.classes[c];
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (r == tree.root || last[r] == parents[r]) continue;
      const std::int32_t arc = routes.Find(parents[r], static_cast<Rank>(r));
      ESPALIER_CHECK(arc >= 0, "parent={} child={}", parents[r], r);
      last[r] = parents[r];
      arcs[r] = static_cast<std::size_t>(arc);
    }
    std::int64_t step = 0;
    for (std::int64_t done = 0; done < tree.count; done += step) {
      step = tree.count - done;
      for (std::size_t r = 0; r < ranks_; ++r) {
        if (r == tree.root) continue;
        const Position& at = positions[arcs[r]];
        const Route& route = routes.Routes(arcs[r])[static_cast<std::size_t>(at.route)];
        step = std::min(step, route.count - at.used);
      }
      roots_.push_back(tree.root);
      counts_.push_back(step);
      const std::size_t row = in_.size();
      in_.resize(row + ranks_, 0);
      for (std::size_t r = 0; r < ranks_; ++r) {
        if (r == tree.root) continue;
        Position& at = positions[arcs[r]];
        const Route& route = routes.Routes(arcs[r])[static_cast<std::size_t>(at.route)];
        const std::uint16_t in = half_routes_.OfRoute(routes.IndexOf(route)).in;
        in_[row + r] = static_cast<std::uint8_t>(in);
        Take(half_routes_.In(static_cast<Rank>(r), in), step);
        at.used += step;
        if (at.used == route.count) at = {at.route + 1, 0};
      }
    }
  }
}

std::int64_t TreeTable::RoomOf(const HalfRoute& half) const {
  std::int64_t room = std::numeric_limits<std::int64_t>::max();
  for (const std::int32_t hop : half_routes_.Hops(half)) {
    room = std::min(room, left_[static_cast<std::size_t>(hop)]);
  }
  return room;
}

void TreeTable::Take(const HalfRoute& half, std::int64_t trees) {
  for (const std::int32_t hop : half_routes_.Hops(half))
    left_[static_cast<std::size_t>(hop)] -= trees;
}

void TreeTable::SetIn(const Edge& edge, std::uint16_t place) {
  Take(InOf(edge), -CountOf(edge.tree));
  in_[edge.tree * ranks_ + edge.child] = static_cast<std::uint8_t>(place);
  Take(InOf(edge), CountOf(edge.tree));
}

void TreeTable::Attach(const Edge& edge, const Sender& sender) {
  const std::size_t at = edge.tree * ranks_ + edge.child;
  parents_[at] = sender.rank;
  out_[at] = static_cast<std::uint8_t>(sender.out);
  Take(half_routes_.Out(sender.rank, sender.out), counts_[edge.tree]);
}

void TreeTable::Detach(const Edge& edge) {
  const std::size_t at = edge.tree * ranks_ + edge.child;
  Take(half_routes_.Out(parents_[at], out_[at]), -counts_[edge.tree]);
  parents_[at] = kNoRank;
}

std::uint32_t TreeTable::Divide(std::uint32_t tree, std::int64_t count) {
  const std::uint32_t others = TreeCountOf();
  counts_.push_back(counts_[tree] - count);
  counts_[tree] = count;
  roots_.push_back(roots_[tree]);
  const auto copy_row = [&](auto& rows) {
    rows.resize(rows.size() + ranks_);
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(tree * ranks_), ranks_,
                rows.end() - static_cast<std::ptrdiff_t>(ranks_));
  };
  copy_row(parents_);
  copy_row(out_);
  copy_row(in_);
  return others;
}

Forest TreeTable::Collect(const TreeCount& count) && {
  Forest forest;
  forest.method = Method::kGeneral;
  forest.rank_count = problem_.rank_count;
  forest.trees_per_weight = count.trees_per_weight;
  forest.scale = count.scale;
  forest.inverse_rate = count.inverse_rate;
  std::vector<std::uint32_t> order(roots_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const auto by_root = [this](std::uint32_t x, std::uint32_t y) { return roots_[x] < roots_[y]; };
  const bool is_sorted = std::is_sorted(order.begin(), order.end(), by_root);
  if (!is_sorted) std::stable_sort(order.begin(), order.end(), by_root);
  forest.classes.reserve(order.size());
  for (const std::uint32_t tree : order) forest.classes.push_back({roots_[tree], counts_[tree]});
  forest.routes = CollectRoutes(order);
  forest.routes.Index(forest.rank_count);
  if (is_sorted) {
    forest.parents = std::move(parents_);
  } else {
    forest.parents.reserve(parents_.size());
    for (const std::uint32_t tree : order) {
      const std::span<const Rank> row = Parents(tree);
      forest.parents.insert(forest.parents.end(), row.begin(), row.end());
    }
  }
  forest.unroutable_edges = CountUnroutableEdges(problem_, forest);
  return forest;
}

// Collects the routes of each arc in the order of the trees, as units are assigned in that order.
RoutingTable TreeTable::CollectRoutes(std::span<const std::uint32_t> order) const {
  constexpr std::size_t kBlock = 16;  // ranks per block: the table is read along its rows
  RoutingTable routes;
  std::array<std::vector<Use>, kBlock> uses;
  std::vector<Use> sorted;
  std::vector<std::uint32_t> place;  // by parent
  for (std::size_t first = 0; first < ranks_; first += kBlock) {
    const std::size_t size = std::min(kBlock, ranks_ - first);
    for (std::size_t i = 0; i < size; ++i) uses[i].clear();
    for (const std::uint32_t t : order) {
      const std::size_t at = t * ranks_ + first;
      for (std::size_t i = 0; i < size; ++i) {
        if (parents_[at + i] == kNoRank) continue;
        uses[i].push_back({parents_[at + i], out_[at + i], in_[at + i], t});
      }
    }
    for (std::size_t i = 0; i < size; ++i) {
      place.assign(ranks_ + 1, 0);
      for (const Use& use : uses[i]) ++place[use.parent + std::size_t{1}];
      for (std::size_t r = 0; r < ranks_; ++r) place[r + 1] += place[r];
      sorted.resize(uses[i].size());
      for (const Use& use : uses[i]) sorted[place[use.parent]++] = use;
      AddRoutesTo(static_cast<Rank>(first + i), sorted, routes);
    }
  }
  return routes;
}

void TreeTable::AddRoutesTo(Rank child, std::span<const Use> uses, RoutingTable& routes) const {
  std::vector<std::int32_t> hops;
  for (std::size_t begin = 0; begin < uses.size();) {
    const Use& use = uses[begin];
    if (begin == 0 || uses[begin - 1].parent != use.parent) routes.AddArc(use.parent, child);
    std::int64_t trees = 0;
    for (; begin < uses.size(); ++begin) {
      const Use& other = uses[begin];
      if (other.parent != use.parent || other.out != use.out || other.in != use.in) break;
      trees += counts_[other.tree];
    }
    const auto up = half_routes_.Hops(half_routes_.Out(use.parent, use.out));
    const auto down = half_routes_.Hops(half_routes_.In(child, use.in));
    hops.assign(up.begin(), up.end());
    hops.insert(hops.end(), down.begin(), down.end());
    routes.AddRoute(trees, hops);
  }
}

}  // namespace espalier::forest
