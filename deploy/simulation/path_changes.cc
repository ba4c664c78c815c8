#include "deploy/simulation/path_changes.h"

namespace espalier::simulation {

std::int64_t PathChanges::Total() const {
  std::int64_t total = to_ecmp;
  for (const auto& [reason, count] : by_reason) total += count;
  return total;
}

std::string_view ReasonName(wire::PathReason reason) {
  switch (reason) {
    case wire::PathReason::kAssigned:
      return "assigned";
    case wire::PathReason::kPredicted:
      return "predicted";
    case wire::PathReason::kPathDead:
      return "path_dead";
    case wire::PathReason::kRecomputed:
      return "recomputed";
    case wire::PathReason::kRemapped:
      return "remapped";
    case wire::PathReason::kStandby:
      break;  // changes nothing that is in force
  }
  return "";
}

Result<void> PathChangeCounter::Apply(const wire::PathSet& paths) {
  const Routes before = RoutesOf(paths.flow);
  auto applied = host_.Apply(paths);
  const std::int64_t changed = CountDifferent(before, RoutesOf(paths.flow));
  if (changed > 0) changes_.by_reason[paths.reason] += changed;
  return applied;
}

Result<void> PathChangeCounter::Clear(wire::LocalFlowId flow) {
  const Routes before = RoutesOf(flow);
  auto cleared = host_.Clear(flow);
  changes_.to_ecmp += CountDifferent(before, RoutesOf(flow));
  return cleared;
}

PathChangeCounter::Routes PathChangeCounter::RoutesOf(wire::LocalFlowId flow) {
  Routes routes;
  if (!host_.IsOpen(flow)) return routes;
  for (const sim::SimFlowId part : host_.FabricFlows(flow)) {
    routes.push_back(fabric_.Trace(fabric_.TupleOf(part)).hops);
  }
  return routes;
}

std::int64_t PathChangeCounter::CountDifferent(const Routes& before, const Routes& after) {
  std::int64_t different = 0;
  for (std::size_t i = 0; i < before.size() && i < after.size(); ++i) {
    different += before[i] == after[i] ? 0 : 1;
  }
  return different;
}

}  // namespace espalier::simulation
