#pragma once

#include <set>

#include "tests/controller/cluster.h"

namespace espalier::controller {

inline constexpr fabric::LeafSpineOptions kFourLeaves{
    .spines = 4, .leaves = 4, .hosts_per_leaf = 4};

// One flow from each host of the first leaf to one of the second. Plain ECMP may put them on the
// same spine; the controller gives each a spine of its own.
inline void OpenFourFlows(Cluster& cluster) {
  for (int i = 0; i < 4; ++i) cluster.Open(i, {{.id = 1, .to = 4 + i}});
  cluster.Settle();
}

inline std::set<int> SpinesOfFourFlows(const Cluster& cluster) {
  std::set<int> spines;
  for (int i = 0; i < 4; ++i) spines.insert(cluster.AppliedSpine(i, 1, 4 + i));
  return spines;
}

}  // namespace espalier::controller
