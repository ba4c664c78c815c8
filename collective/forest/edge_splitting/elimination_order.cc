#include "collective/forest/edge_splitting/elimination_order.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace espalier::forest {

std::vector<std::vector<std::int32_t>> GroupSwitches(const Problem& problem) {
  std::vector<std::int32_t> degree(static_cast<std::size_t>(problem.node_count), 0);
  for (const Arc& arc : problem.arcs) {
    ++degree[static_cast<std::size_t>(arc.tail)];
    ++degree[static_cast<std::size_t>(arc.head)];
  }
  std::vector<std::int32_t> switches(
      static_cast<std::size_t>(problem.node_count - problem.rank_count));
  std::iota(switches.begin(), switches.end(), problem.rank_count);
  const auto place = [&](std::int32_t node) {
    const auto index = static_cast<std::size_t>(node);
    return std::tuple(problem.tier[index], static_cast<bool>(problem.in_fabric[index]));
  };
  const auto degree_of = [&](std::int32_t node) { return degree[static_cast<std::size_t>(node)]; };
  std::sort(switches.begin(), switches.end(), [&](std::int32_t x, std::int32_t y) {
    return std::tuple(place(x), degree_of(x), x) < std::tuple(place(y), degree_of(y), y);
  });
  std::vector<std::vector<std::int32_t>> groups;
  for (const std::int32_t node : switches) {
    // A degree larger by half or more means another kind of switch.
    const bool joins = !groups.empty() && place(groups.back().front()) == place(node) &&
                       2 * degree_of(node) < 3 * std::max(degree_of(groups.back().front()), 2);
    if (!joins) groups.emplace_back();
    groups.back().push_back(node);
  }
  for (std::vector<std::int32_t>& group : groups) std::sort(group.begin(), group.end());
  return groups;
}

std::vector<std::int32_t> ComputeComponents(const FlowGraph& graph, std::int32_t rank_count) {
  std::vector<std::int32_t> component(static_cast<std::size_t>(rank_count), -1);
  std::vector<std::int32_t> stack;
  for (std::int32_t start = 0; start < rank_count; ++start) {
    if (component[static_cast<std::size_t>(start)] >= 0) continue;
    component[static_cast<std::size_t>(start)] = start;
    stack.push_back(start);
    while (!stack.empty()) {
      const std::int32_t node = stack.back();
      stack.pop_back();
      for (const FlowGraph::Port& port : graph.Ports(node)) {
        if (port.node >= rank_count) continue;
        std::int32_t& theirs = component[static_cast<std::size_t>(port.node)];
        if (theirs >= 0) continue;
        theirs = start;
        stack.push_back(port.node);
      }
    }
  }
  return component;
}

std::vector<std::int32_t> OrderByBox(std::span<const std::int32_t> box) {
  std::vector<std::int32_t> order(box.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t x, std::int32_t y) {
    return box[static_cast<std::size_t>(x)] < box[static_cast<std::size_t>(y)];
  });
  return order;
}

}  // namespace espalier::forest
