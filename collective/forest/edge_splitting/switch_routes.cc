#include "collective/forest/edge_splitting/switch_routes.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "collective/forest/model/routable.h"
#include "common/base/check.h"

namespace espalier::forest {

namespace {

// Routes under construction: an arc of the problem, or two routes one after the other.
class RoutePool {
 public:
  using Id = std::int32_t;

  Id AddArc(std::int32_t arc) { return Add({arc, kIsArc}); }
  Id Join(Id first, Id second) { return Add({first, second}); }

  void AppendHops(Id id, std::vector<std::int32_t>& hops) const {
    const Piece& piece = pieces_[static_cast<std::size_t>(id)];
    if (piece.second == kIsArc) {
      hops.push_back(piece.first);
    } else {
      AppendHops(piece.first, hops);
      AppendHops(piece.second, hops);
    }
  }

 private:
  static constexpr std::int32_t kIsArc = -1;
  struct Piece {
    std::int32_t first = 0;
    std::int32_t second = 0;
  };

  Id Add(Piece piece) {
    pieces_.push_back(piece);
    return static_cast<Id>(pieces_.size()) - 1;
  }

  std::vector<Piece> pieces_;
};

// Units of a logical arc that take the same route.
struct Segment {
  std::int64_t count = 0;
  RoutePool::Id route = 0;
};

// The units of one logical arc: taken from the front, added at the back.
class Segments {
 public:
  void Add(Segment segment) { segments_.push_back(segment); }
  bool IsEmpty() const { return first_ == segments_.size(); }
  Segment Take(std::int64_t count) {
    ESPALIER_CHECK(!IsEmpty());
    Segment& front = segments_[first_];
    const Segment taken{std::min(count, front.count), front.route};
    front.count -= taken.count;
    if (front.count == 0) ++first_;
    return taken;
  }

 private:
  std::vector<Segment> segments_;
  std::size_t first_ = 0;
};

using ArcSegments = std::map<std::pair<std::int32_t, std::int32_t>, Segments>;

// Problem: a unit of an arc between ranks stands for a path over removed switches, but the splits
// only say which pairs of arcs were joined.
//
// Idea: replay the splits in their order. Each arc holds its units as segments with a known route.
// A split takes units from the front of (u, w) and (w, t), joins their routes and adds them to (u,
// t).
//
// Invariant: after each split, the segments of every arc add up to its capacity in the split graph.
// Cost: O(splits * segments). Source: ForestColl, Algorithm 3 (table `routing`).
void Replay(const Removal& removal, const Split& split, ArcSegments& arcs, RoutePool& pool) {
  Segments& in = arcs[{split.from, removal.node}];
  Segments& out = arcs[{removal.node, split.to}];
  std::int64_t left = split.amount;
  Segment first;
  Segment second;
  while (left > 0) {
    if (first.count == 0) first = in.Take(left);
    if (second.count == 0) second = out.Take(left);
    const std::int64_t count = std::min(first.count, second.count);
    if (split.from != split.to) {
      arcs[{split.from, split.to}].Add({count, pool.Join(first.route, second.route)});
    }
    first.count -= count;
    second.count -= count;
    left -= count;
  }
}

struct FlatRoute {
  std::int64_t count = 0;
  std::vector<std::int32_t> hops;
  bool routable = false;
};

std::vector<FlatRoute> Flatten(const Problem& problem, const RoutePool& pool, Segments& segments) {
  std::vector<FlatRoute> routes;
  while (!segments.IsEmpty()) {
    const Segment segment = segments.Take(std::numeric_limits<std::int64_t>::max());
    FlatRoute route{segment.count, {}, false};
    pool.AppendHops(segment.route, route.hops);
    route.routable = IsRoutable(problem, route.hops);
    const bool same = !routes.empty() && routes.back().hops == route.hops;
    if (same) {
      routes.back().count += route.count;
    } else {
      routes.push_back(std::move(route));
    }
  }
  std::stable_partition(routes.begin(), routes.end(),
                        [](const FlatRoute& route) { return route.routable; });
  return routes;
}

}  // namespace

RoutingTable ResolveRoutes(const Problem& problem, const TreeCount& count,
                           std::span<const Removal> switches) {
  RoutePool pool;
  ArcSegments arcs;
  for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
    if (count.capacity[a] == 0) continue;
    arcs[{problem.arcs[a].tail, problem.arcs[a].head}].Add(
        {count.capacity[a], pool.AddArc(static_cast<std::int32_t>(a))});
  }
  for (const Removal& removal : switches) {
    for (const Split& split : removal.splits) {
      if (split.from != split.to) Replay(removal, split, arcs, pool);
    }
    // Dropped capacity comes last, so that useful splits get the best routes.
    for (const Split& split : removal.splits) {
      if (split.from == split.to) Replay(removal, split, arcs, pool);
    }
  }
  RoutingTable table;
  for (auto& [ends, segments] : arcs) {
    if (segments.IsEmpty()) continue;
    ESPALIER_CHECK(problem.IsRank(ends.first) && problem.IsRank(ends.second));
    table.AddArc(static_cast<Rank>(ends.first), static_cast<Rank>(ends.second));
    for (const FlatRoute& route : Flatten(problem, pool, segments)) {
      table.AddRoute(route.count, route.hops);
    }
  }
  table.Index(problem.rank_count);
  return table;
}

}  // namespace espalier::forest
