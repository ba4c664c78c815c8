#include "collective/forest/model/problem.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace espalier::forest {

std::int64_t Problem::TotalWeight() const {
  return std::accumulate(weight.begin(), weight.end(), std::int64_t{0});
}

std::int32_t Problem::FindArc(std::int32_t tail, std::int32_t head) const {
  const auto found = std::lower_bound(
      arcs.begin(), arcs.end(), std::pair(tail, head),
      [](const Arc& arc, const auto& key) { return std::pair(arc.tail, arc.head) < key; });
  if (found == arcs.end() || found->tail != tail || found->head != head) return -1;
  return static_cast<std::int32_t>(found - arcs.begin());
}

std::optional<Rational> Problem::PerGbps(const Rational& per_unit) const {
  return Rational::Product(per_unit, Rational(1'000'000'000, unit.value));
}

std::optional<Rational> Problem::Gbps(const Rational& units) const {
  return Rational::Product(units, Rational(unit.value, 1'000'000'000));
}

Problem Transpose(const Problem& problem) {
  std::vector<std::size_t> order(problem.arcs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    return std::pair(problem.arcs[x].head, problem.arcs[x].tail) <
           std::pair(problem.arcs[y].head, problem.arcs[y].tail);
  });
  Problem transposed = problem;
  transposed.arcs.clear();
  transposed.links.clear();
  transposed.links_begin.clear();
  std::swap(transposed.multicast, transposed.reduce);
  for (const std::size_t a : order) {
    const Arc& arc = problem.arcs[a];
    transposed.arcs.push_back({arc.head, arc.tail, arc.capacity});
    transposed.links_begin.push_back(static_cast<std::int32_t>(transposed.links.size()));
    const std::span<const fabric::DirectedLink> links = problem.LinksOf(a);
    transposed.links.insert(transposed.links.end(), links.begin(), links.end());
  }
  transposed.links_begin.push_back(static_cast<std::int32_t>(transposed.links.size()));
  return transposed;
}

}  // namespace espalier::forest
