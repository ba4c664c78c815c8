#include "controller/prediction/start_plan.h"

#include <algorithm>
#include <map>

#include "common/base/random.h"

namespace espalier::controller {

StartPlan PlanStarts(LivePaths& live, std::span<const ExpectedStart> starts,
                     std::span<const LivePaths::Way> ending, const LivePaths::Options& options) {
  std::vector<std::int32_t> ending_paths;
  for (const LivePaths::Way way : ending) {
    ending_paths.push_back(live.PathOf(way));
    live.Place(way, kNoPath);
  }
  std::vector<LivePaths::Way> ways;
  for (const ExpectedStart& start : starts) {
    for (std::uint32_t i = 0; i < start.ways; ++i) {
      ways.push_back(live.Add(start.source, start.destination, kLoadUnit / start.ways));
    }
  }
  std::map<LivePaths::Way, std::int32_t> original;  // of all that moved
  for (const LivePaths::Move& move : live.StartAll(ways, options)) {
    original.try_emplace(move.way, move.from);
  }
  StartPlan plan;
  for (const LivePaths::Way way : ways) {
    plan.paths.push_back(live.PathOf(way));
    original.erase(way);
  }
  for (const auto& [way, from] : original) {
    if (live.PathOf(way) != from) plan.moves.push_back({way, from, live.PathOf(way)});
    live.Place(way, from);
  }
  for (auto way = ways.rbegin(); way != ways.rend(); ++way) live.Remove(*way);
  for (std::size_t i = 0; i < ending.size(); ++i) live.Place(ending[i], ending_paths[i]);
  return plan;
}

std::uint64_t PathFingerprint(std::uint32_t source, std::uint32_t destination, std::int32_t path,
                              std::size_t ways) {
  const std::uint64_t pair = (std::uint64_t{source} << 32U) | destination;
  return Mix64(Mix64(pair) ^ ((std::uint64_t{ways} << 32U) | static_cast<std::uint32_t>(path)));
}

}  // namespace espalier::controller
