#include "collective/forest/model/forest.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/enum_names.h"
#include "common/os/large_memory.h"

namespace espalier::forest {

void RoutingTable::Reserve(std::size_t arcs, std::size_t routes, std::size_t hops) {
  ReserveLarge(arcs_, arcs);
  ReserveLarge(routes_, routes);
  ReserveLarge(hops_, hops);
}

void RoutingTable::AddArc(Rank from, Rank to) {
  const auto routes = static_cast<std::int32_t>(routes_.size());
  arcs_.push_back({from, to, routes, routes});
}

void RoutingTable::AddRoute(std::int64_t count, std::span<const std::int32_t> hops,
                            std::span<const std::int32_t> more) {
  const auto begin = static_cast<std::int32_t>(hops_.size());
  for (const std::int32_t hop : hops) hops_.push_back(hop);
  for (const std::int32_t hop : more) hops_.push_back(hop);
  routes_.push_back({count, begin, static_cast<std::int32_t>(hops_.size())});
  arcs_.back().routes_end = static_cast<std::int32_t>(routes_.size());
}

void RoutingTable::Index(std::int32_t rank_count) {
  const auto before = [](const LogicalArc& x, const LogicalArc& y) {
    return x.to != y.to ? x.to < y.to : x.from < y.from;
  };
  // Large tables are built in order already.
  if (!std::is_sorted(arcs_.begin(), arcs_.end(), before)) {
    std::sort(arcs_.begin(), arcs_.end(), before);
  }
  begin_.assign(static_cast<std::size_t>(rank_count) + 1, 0);
  for (const LogicalArc& arc : arcs_) ++begin_[arc.to + std::size_t{1}];
  for (std::size_t to = 0; to + 1 < begin_.size(); ++to) begin_[to + 1] += begin_[to];
}

std::int32_t RoutingTable::Find(Rank from, Rank to) const {
  const auto first = arcs_.begin() + begin_[to];
  const auto last = arcs_.begin() + begin_[to + std::size_t{1}];
  const auto found = std::lower_bound(
      first, last, from, [](const LogicalArc& arc, Rank rank) { return arc.from < rank; });
  if (found == last || found->from != from) return -1;
  return static_cast<std::int32_t>(found - arcs_.begin());
}

std::span<const Route> RoutingTable::Routes(std::size_t arc) const {
  return {routes_.data() + arcs_[arc].routes_begin, routes_.data() + arcs_[arc].routes_end};
}

std::string_view MethodName(Method method) {
  static constexpr EnumNames<Method> kMethodNames(
      {
          {Method::kGeneral, "general"},
          {Method::kHierarchical, "hierarchical"},
          {Method::kTransitive, "transitive"},
          {Method::kLabels, "labels"},
      },
      "");
  return kMethodNames.NameOf(method);
}

RouteCursor::RouteCursor(const RoutingTable& routes)
    : routes_(routes), positions_(routes.ArcCount()) {}

std::span<const RouteCursor::Piece> RouteCursor::Take(std::size_t arc, std::int64_t count) {
  pieces_.clear();
  const std::span<const Route> routes = routes_.Routes(arc);
  Position& position = positions_[arc];
  while (count > 0) {
    if (static_cast<std::size_t>(position.route) == routes.size()) return {};
    const Route& route = routes[static_cast<std::size_t>(position.route)];
    const std::int64_t taken = std::min(count, route.count - position.used);
    pieces_.push_back({taken, &route});
    count -= taken;
    position.used += taken;
    if (position.used == route.count) position = {position.route + 1, 0};
  }
  return pieces_;
}

std::int32_t ComputeHeight(std::span<const Rank> parents) {
  std::vector<std::int32_t> depth(parents.size(), -1);
  std::vector<std::size_t> path;
  std::int32_t height = 0;
  for (std::size_t start = 0; start < parents.size(); ++start) {
    std::size_t node = start;
    while (depth[node] < 0 && parents[node] != kNoRank) {
      path.push_back(node);
      ESPALIER_CHECK(path.size() <= parents.size(), "the parents of {} form a cycle", start);
      node = parents[node];
    }
    std::int32_t below = std::max(depth[node], 0);
    depth[node] = below;
    for (; !path.empty(); path.pop_back()) depth[path.back()] = ++below;
    height = std::max(height, below);
  }
  return height;
}

Heights ComputeHeights(const Forest& forest) {
  Heights heights;
  double sum = 0;
  double trees = 0;
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    const std::int32_t height = ComputeHeight(forest.Parents(c));
    heights.max = std::max(heights.max, height);
    const auto count = static_cast<double>(forest.classes[c].count);
    sum += count * height;
    trees += count;
  }
  if (trees > 0) heights.mean = sum / trees;
  return heights;
}

}  // namespace espalier::forest
