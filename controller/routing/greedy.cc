#include "controller/routing/greedy.h"

namespace espalier::controller {

using fabric::PathIndex;

std::optional<PathIndex> ChooseLeastLoaded(const fabric::Topology& topology,
                                           std::span<const fabric::Path> paths,
                                           const LinkLoads& loads) {
  std::optional<PathIndex> best;
  std::int32_t best_load = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::int32_t load = loads.Busiest(paths[i]);
    if (best && load >= best_load) continue;
    if (!fabric::IsUsable(topology, paths[i])) continue;
    best = PathIndex(static_cast<std::int32_t>(i));
    best_load = load;
  }
  return best;
}

std::vector<std::optional<PathIndex>> AssignGreedy(
    const fabric::Topology& topology, std::span<const std::span<const fabric::Path>> commodities,
    LinkLoads& loads) {
  std::vector<std::optional<PathIndex>> assignment;
  assignment.reserve(commodities.size());
  for (const std::span<const fabric::Path> paths : commodities) {
    const std::optional<PathIndex> path = ChooseLeastLoaded(topology, paths, loads);
    if (path) loads.Add(paths[path->Index()]);
    assignment.push_back(path);
  }
  return assignment;
}

}  // namespace espalier::controller
