#include "controller/prediction/start_assignment.h"

#include <algorithm>
#include <map>

#include "common/base/random.h"

namespace espalier::controller {

StartAssignment AssignPredictedStarts(OnlineAssigner& assigner,
                                      std::span<const PredictedStart> starts,
                                      std::span<const SubflowId> ending,
                                      const OnlineAssigner::Options& options) {
  std::vector<std::int32_t> ending_paths;
  for (const SubflowId subflow : ending) {
    ending_paths.push_back(assigner.PathOf(subflow));
    assigner.Place(subflow, kNoPath);
  }
  std::vector<SubflowId> subflows;
  for (const PredictedStart& start : starts) {
    for (std::uint32_t i = 0; i < start.subflows; ++i) {
      subflows.push_back(assigner.Add(start.source, start.destination, kLoadUnit / start.subflows));
    }
  }
  std::map<SubflowId, std::int32_t> original;  // paths of subflows that moved
  for (const OnlineAssigner::Move& move : assigner.PlaceArrivals(subflows, options)) {
    original.try_emplace(move.subflow, move.from);
  }
  StartAssignment plan;
  for (const SubflowId subflow : subflows) {
    plan.paths.push_back(assigner.PathOf(subflow));
    original.erase(subflow);
  }
  for (const auto& [subflow, from] : original) {
    if (assigner.PathOf(subflow) != from)
      plan.moves.push_back({subflow, from, assigner.PathOf(subflow)});
    assigner.Place(subflow, from);
  }
  for (auto subflow = subflows.rbegin(); subflow != subflows.rend(); ++subflow)
    assigner.Remove(*subflow);
  for (std::size_t i = 0; i < ending.size(); ++i) assigner.Place(ending[i], ending_paths[i]);
  return plan;
}

std::uint64_t PathFingerprint(std::uint32_t source, std::uint32_t destination, std::int32_t path,
                              std::int64_t share) {
  const std::uint64_t pair = (std::uint64_t{source} << 32U) | destination;
  return Mix64(Mix64(pair) ^
               ((static_cast<std::uint64_t>(share) << 32U) | static_cast<std::uint32_t>(path)));
}

}  // namespace espalier::controller
