#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collective/forest/model/problem.h"
#include "collective/forest/model/rational.h"

namespace espalier::forest {

// Identical trees: `count` units with one parent array (Forest::Parents).
struct TreeClass {
  Rank root = 0;
  std::int64_t count = 0;
  bool operator==(const TreeClass&) const = default;
};

// How some units of a logical arc (rank to rank) travel: the problem's arcs in order.
struct Route {
  std::int64_t count = 0;
  std::int32_t hops_begin = 0;  // into RoutingTable's hops
  std::int32_t hops_end = 0;
};

// The paper's table `routing` (ForestColl, Algorithm 3), resolved: for each logical arc (u, t) of
// the graph without switches, the physical routes of its units. The units of an arc are numbered
// route after route: route i has the units [sum of earlier counts, + count).
//
// Built by appending arcs in any order and then calling Index(). Thread safety: const calls from
// any thread.
class RoutingTable {
 public:
  // Reserves room for so many entries, on large pages. Call it before the first entry of a large
  // table.
  void Reserve(std::size_t arcs, std::size_t routes, std::size_t hops);
  // Starts a new logical arc; its routes follow with AddRoute. No two arcs join the same ranks.
  void AddArc(Rank from, Rank to);
  // Adds a route over `hops` and then `more`.
  void AddRoute(std::int64_t count, std::span<const std::int32_t> hops,
                std::span<const std::int32_t> more = {});
  // Makes Find possible; nothing can be added afterwards.
  void Index(std::int32_t rank_count);

  std::size_t ArcCount() const { return arcs_.size(); }
  // Returns the index of the logical arc, or -1. O(log of the arcs into `to`).
  std::int32_t Find(Rank from, Rank to) const;
  Rank From(std::size_t arc) const { return arcs_[arc].from; }
  Rank To(std::size_t arc) const { return arcs_[arc].to; }
  std::span<const Route> Routes(std::size_t arc) const;
  // IndexOf gives the index of a route of this table among all its routes.
  std::size_t RouteCount() const { return routes_.size(); }
  std::size_t HopCount() const { return hops_.size(); }  // over all routes
  std::size_t IndexOf(const Route& route) const {
    return static_cast<std::size_t>(&route - routes_.data());
  }
  std::span<const std::int32_t> Hops(const Route& route) const {
    return {hops_.data() + route.hops_begin, hops_.data() + route.hops_end};
  }

 private:
  struct LogicalArc {
    Rank from = 0;
    Rank to = 0;
    std::int32_t routes_begin = 0;
    std::int32_t routes_end = 0;
  };
  std::vector<LogicalArc> arcs_;  // by (to, from) once indexed
  std::vector<Route> routes_;
  std::vector<std::int32_t> hops_;
  std::vector<std::int32_t> begin_;  // by `to`: index of its first arc
};

enum class Method { kGeneral, kHierarchical, kTransitive, kLabels };
std::string_view MethodName(Method method);  // "general", "hierarchical", ...

// How often the shortcuts of the general construction failed. The result is exact in any case.
struct FallbackCounters {
  std::int64_t batches_halved = 0;     // sets of guessed nodes that failed together
  std::int64_t guesses_refused = 0;    // verifications that failed, of one node or more
  std::int64_t bisections = 0;         // pair lists halved
  std::int64_t exact_gammas = 0;       // single pairs whose exact gamma was computed
  std::int64_t exhaustive_rounds = 0;  // rounds over all remaining pairs of a node
};

// Spanning out-trees over the ranks, rooted at the ranks; for in-trees read the arcs backwards.
//
// The units of a logical arc are assigned in the order of the classes: the edge (u, t) of class c
// takes the interval [sum of the counts of earlier classes that use (u, t), + count) of the arc's
// units. An edge whose interval spans several routes takes all of them, which splits it without any
// extra memory. RouteCursor walks this assignment.
struct Forest {
  Method method = Method::kGeneral;
  std::int32_t rank_count = 0;
  std::vector<TreeClass> classes;  // by root
  std::vector<Rank> parents;       // class-major, rank_count per class; kNoRank at the root
  RoutingTable routes;

  std::int64_t trees_per_weight = 0;  // k
  Rational scale;                     // U, per Problem::unit: each tree has bandwidth 1/U
  Rational inverse_rate;              // attained: U / k
  // The number of tree edges (each class's once) that partly take a route that ECMP would not use
  // (routable.h).
  std::int64_t unroutable_edges = 0;
  FallbackCounters fallbacks;

  std::span<const Rank> Parents(std::size_t tree_class) const {
    return {parents.data() + tree_class * static_cast<std::size_t>(rank_count),
            static_cast<std::size_t>(rank_count)};
  }
  std::span<Rank> Parents(std::size_t tree_class) {
    return {parents.data() + tree_class * static_cast<std::size_t>(rank_count),
            static_cast<std::size_t>(rank_count)};
  }
};

// Assigns the units of logical arcs, class by class: call Take for every edge of class 0, then of
// class 1, and so on. The order of edges within a class is free.
class RouteCursor {
 public:
  explicit RouteCursor(const RoutingTable& routes);
  // `count` of the units travel on the route.
  struct Piece {
    std::int64_t count = 0;
    const Route* route = nullptr;
  };
  // Returns the routes of the next `count` units of the arc, in order; valid until the next call.
  // Empty if the arc has fewer units left (an invalid forest).
  std::span<const Piece> Take(std::size_t arc, std::int64_t count);

 private:
  struct Position {
    std::int32_t route = 0;  // within the arc
    std::int64_t used = 0;   // of that route
  };
  const RoutingTable& routes_;
  std::vector<Position> positions_;
  std::vector<Piece> pieces_;
};

struct Heights {
  std::int32_t max = 0;
  double mean = 0;  // over trees, each class counted `count` times
};
// Returns the tree heights: logical edges on the longest path from the root. O(classes * ranks).
Heights ComputeHeights(const Forest& forest);
// Returns the height of one tree.
std::int32_t ComputeHeight(std::span<const Rank> parents);

}  // namespace espalier::forest
