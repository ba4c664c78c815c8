#pragma once

#include <functional>
#include <span>
#include <string>

#include "deploy/lab/workload/workload.h"

namespace espalier::traffic {

// How many flows the most loaded link of a 2-tier leaf-spine fabric carries at best, where a flow
// of k queue pairs puts 1/k on the path of each.
struct PhaseLoads {
  // In the worst overlap of the jobs' phases, with the best paths. It can be reached: a phase is a
  // bipartite multigraph of source and destination leaves, and by König's theorem its edges divide
  // into as many matchings as its largest degree, K. The matchings of all jobs, sum over jobs of
  // their largest K, go to the spines in turn, and a matching puts one flow on a link at most.
  int worst_overlap = 0;
  // If all connections of all jobs sent at once. No assignment is below it, as a leaf's flows share
  // its links to the spines.
  int all_connections = 0;
  // True if no two phases of a job share a connection. Then one assignment, without any change of
  // ports, reaches worst_overlap in all phases.
  bool are_phases_disjoint = true;
};

// `leaf_of` gives the leaf of a host. Bursts within a leaf use no link. Pure.
PhaseLoads BoundPhaseLoads(std::span<const PhasedJob> jobs, int spines,
                           const std::function<int(const std::string& host)>& leaf_of);

}  // namespace espalier::traffic
