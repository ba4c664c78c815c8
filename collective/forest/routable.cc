#include "collective/forest/routable.h"

namespace espalier::forest {

bool IsRoutable(const Problem& problem, std::span<const std::int32_t> hops) {
  enum class Phase { kBefore, kUp, kAcross, kDown, kAfter };
  Phase phase = Phase::kBefore;
  std::int32_t last_tier = 0;
  for (std::size_t i = 0; i + 1 < hops.size(); ++i) {
    const auto node =
        static_cast<std::size_t>(problem.arcs[static_cast<std::size_t>(hops[i])].head);
    if (!problem.in_fabric[node]) {
      if (phase != Phase::kBefore) phase = Phase::kAfter;
      continue;
    }
    if (phase == Phase::kAfter) return false;
    const std::int32_t tier = problem.tier[node];
    Phase next = Phase::kUp;
    if (phase != Phase::kBefore && tier == last_tier) next = Phase::kAcross;
    if (phase != Phase::kBefore && tier < last_tier) next = Phase::kDown;
    if (next < phase) return false;
    phase = next;
    last_tier = tier;
    for (std::size_t j = 0; j < i; ++j) {
      if (static_cast<std::size_t>(problem.arcs[static_cast<std::size_t>(hops[j])].head) == node) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace espalier::forest
