#include "tests/controller/routing/load_oracle.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "controller/offline/evaluation/solver.h"

namespace espalier::controller {
namespace {

// "Optimal - objective value 1.50000000": the first line of cbc's solution.
double ObjectiveOf(const std::string& solution) {
  constexpr std::string_view kStart = "Optimal - objective value ";
  ESPALIER_CHECK(solution.starts_with(kStart), "{}", solution.substr(0, 100));
  return std::stod(solution.substr(kStart.size()));
}

// The units on each link by the paths of all subflows; fails if a path is not usable.
std::vector<std::int64_t> LoadsOf(Fabric& fabric, const Commodities& flows,
                                  const Assignment& assignment) {
  std::vector<std::int64_t> loads(2 * fabric.topology.links().size());
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto all = fabric.paths.Between(fabric.view.LeafNode(flows[i].source),
                                          fabric.view.LeafNode(flows[i].destination));
    for (const std::int32_t path : assignment.PathsOf(i)) {
      if (path == kNoPath) continue;
      const fabric::Path& taken = all[static_cast<std::size_t>(path)];
      EXPECT_TRUE(fabric::IsUsable(fabric.topology, taken)) << "flow " << i;
      for (const auto hop : taken.hops) loads[hop.Index()] += kLoadUnit / flows[i].subflows;
    }
  }
  return loads;
}

std::int64_t RateOf(const Fabric& fabric, std::size_t link) {
  return fabric.topology.link(fabric::DirectedLink::FromIndex(link).link).rate.value;
}

Load MaxOf(const Fabric& fabric, const std::vector<std::int64_t>& loads) {
  Load most;
  for (std::size_t link = 0; link < loads.size(); ++link) {
    most = std::max(most, MakeLoad(fabric.view, loads[link], RateOf(fabric, link)));
  }
  return most;
}

}  // namespace

std::vector<std::vector<std::size_t>> UsablePaths(Fabric& fabric, const Commodity& flow) {
  std::vector<std::vector<std::size_t>> usable;
  if (flow.source == flow.destination) return usable;
  for (const fabric::Path& path : fabric.paths.Between(fabric.view.LeafNode(flow.source),
                                                       fabric.view.LeafNode(flow.destination))) {
    if (!fabric::IsUsable(fabric.topology, path)) continue;
    auto& links = usable.emplace_back();
    for (const auto hop : path.hops) links.push_back(hop.Index());
  }
  return usable;
}

double FractionalBound(Fabric& fabric, const Commodities& flows) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> demands;
  for (const Commodity& flow : flows) {
    if (!UsablePaths(fabric, flow).empty()) ++demands[{flow.source, flow.destination}];
  }
  if (demands.empty()) return 0;
  std::string program = "Minimize\n obj: t\nSubject To\n";
  std::map<std::size_t, std::string> sums;  // by link
  int pair = 0;
  for (const auto& [leaves, demand] : demands) {
    const auto paths = UsablePaths(fabric, {.source = leaves.first, .destination = leaves.second});
    fmt::format_to(std::back_inserter(program), " p{}:", pair);
    for (std::size_t path = 0; path < paths.size(); ++path) {
      const std::string term = fmt::format(" + x{}_{}\n", pair, path);
      program += term;
      for (const std::size_t link : paths[path]) sums[link] += term;
    }
    fmt::format_to(std::back_inserter(program), " = {}\n", demand);
    ++pair;
  }
  const auto unit = static_cast<double>(fabric.view.unit_bps());
  for (const auto& [link, sum] : sums) {
    fmt::format_to(std::back_inserter(program), " l{}:{} - {:.12g} t <= 0\n", link, sum,
                   static_cast<double>(RateOf(fabric, link)) / unit);
  }
  const auto solution = offline::SolveWithCbc(program + "End\n");
  ESPALIER_CHECK(solution.has_value(), "{}", solution.error().message);
  return ObjectiveOf(*solution);
}

Load BruteForce(Fabric& fabric, const Commodities& flows) {
  // All subflows in a row, with the paths of each.
  std::vector<std::pair<std::int64_t, std::vector<std::vector<std::size_t>>>> subflows;
  for (const Commodity& flow : flows) {
    const auto paths = UsablePaths(fabric, flow);
    if (paths.empty()) continue;
    subflows.insert(subflows.end(), flow.subflows, {kLoadUnit / flow.subflows, paths});
  }
  std::vector<std::int64_t> loads(2 * fabric.topology.links().size());
  Load best{std::numeric_limits<std::int32_t>::max(), 1};
  const auto place = [&](const auto& self, std::size_t i, Load most) -> void {
    if (most >= best) return;
    if (i == subflows.size()) {
      best = most;
      return;
    }
    for (const auto& path : subflows[i].second) {
      Load with = most;
      for (const std::size_t link : path) {
        loads[link] += subflows[i].first;
        with = std::max(with, MakeLoad(fabric.view, loads[link], RateOf(fabric, link)));
      }
      self(self, i + 1, with);
      for (const std::size_t link : path) loads[link] -= subflows[i].first;
    }
  };
  place(place, 0, Load{});
  return best;
}

void ExpectValid(Fabric& fabric, const Commodities& flows, const Assignment& assignment) {
  ASSERT_EQ(assignment.first.size(), flows.size() + 1);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto subflows = assignment.PathsOf(i);
    ASSERT_EQ(subflows.size(), flows[i].subflows);
    const bool takes_path = !UsablePaths(fabric, flows[i]).empty();
    for (const std::int32_t path : subflows) ASSERT_EQ(path != kNoPath, takes_path) << "flow " << i;
  }
  EXPECT_EQ(assignment.max_load, MaxOf(fabric, LoadsOf(fabric, flows, assignment)));
  EXPECT_LE(assignment.lower_bound, assignment.max_load);
}

}  // namespace espalier::controller
