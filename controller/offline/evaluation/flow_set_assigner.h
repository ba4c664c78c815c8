#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/paths.h"
#include "controller/offline/evaluation/schemes.h"
#include "controller/offline/files/assignment_file.h"
#include "controller/routing/assigner.h"

namespace espalier::offline {

// Chooses paths for the flows of a file. What it is given must outlive it and stay unchanged.
// Thread safety: one thread.
class FlowSetAssigner {
 public:
  // Every flow is split over `split` ways (1 to kMaxSubflows).
  FlowSetAssigner(const fabric::Topology& topology, fabric::PathTable& paths, const FlowSet& flows,
                  std::uint32_t split);

  // All paths anew. A flow whose NIC has no usable link is UNROUTABLE, too. Greedy takes the
  // flows in the order of the file; `seed` is that of ecmp and annealing.
  // Errors: the solver's, for ilp.
  Result<AssignmentResult> Assign(Algorithm algorithm, std::uint64_t seed);

  // Flows keep the paths that a previous plan gave them; new ones, and those whose path is not
  // there any more or not usable, get the least loaded. Then moves of any flows
  // within the budget bring loads down to the optimum, flows with few bytes first.
  struct MoveBudget {
    std::size_t moves = 0;  // of a flow's part over one path
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();  // of these parts, in all
  };
  AssignmentResult Repair(const PreviousAssignment& previous, const MoveBudget& budget);

 private:
  Result<controller::Assignment> RunAlgorithm(Algorithm algorithm, std::uint64_t seed);
  // By way, the path that the plan has for it and that is usable, or kNoPath.
  std::vector<std::int32_t> KeptPaths(std::size_t commodity, const PreviousAssignment& previous);
  std::int32_t FindPath(const controller::Commodity& commodity,
                        const std::vector<std::string>& links);
  void CountMoves(const PreviousAssignment& previous, AssignmentResult& plan) const;
  AssignmentResult MakePlan(const controller::Assignment& assignment);
  std::vector<AssignedPath> PathsOf(const controller::Commodity& commodity,
                                    std::span<const std::int32_t> paths);

  const fabric::Topology& topology_;
  const FlowSet& flows_;
  std::uint32_t split_;
  controller::FabricView view_;
  std::vector<controller::Commodity> commodities_;  // of flows whose NICs can send and receive
  std::vector<std::size_t> flow_of_;                // by commodity
};

}  // namespace espalier::offline
