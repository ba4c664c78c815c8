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

// Chooses paths for the flows of a file. Its arguments must outlive it and stay unchanged.
// Thread safety: one thread.
class FlowSetAssigner {
 public:
  // Every flow is split into `split` subflows (1 to kMaxSubflows).
  FlowSetAssigner(const fabric::Topology& topology, fabric::PathTable& paths, const FlowSet& flows,
                  std::uint32_t split);

  // Assigns all flows from scratch. A flow whose NIC has no usable link is UNROUTABLE. Greedy takes
  // the flows in the order of the file; `seed` is used by ecmp and annealing, `shares` by optimal.
  // Errors: the solver's, for ilp.
  Result<AssignmentResult> Assign(Algorithm algorithm, std::uint64_t seed,
                                  controller::Shares shares = controller::Shares::kEqual);

  // Keeps the paths of a previous assignment. New flows, and those whose path is gone or unusable,
  // get the least loaded path. Then moves of any subflows within the budget bring the loads down to
  // the optimum, flows with few bytes first.
  struct MoveBudget {
    std::size_t moves = 0;                                          // of subflows
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();  // of these subflows, in all
  };
  AssignmentResult Repair(const PreviousAssignment& previous, const MoveBudget& budget);

 private:
  Result<controller::Assignment> RunAlgorithm(Algorithm algorithm, std::uint64_t seed,
                                              controller::Shares shares);
  // By subflow: its usable path in the previous assignment, or kNoPath.
  std::vector<std::int32_t> KeptPaths(std::size_t commodity, const PreviousAssignment& previous);
  std::int32_t FindPath(const controller::Commodity& commodity,
                        const std::vector<std::string>& links);
  void CountMoves(const PreviousAssignment& previous, AssignmentResult& result) const;
  // `portion`: of the lower bounds (ComputeLowerBound).
  AssignmentResult MakeResult(const controller::Assignment& assignment, std::int64_t portion = 0);
  std::vector<AssignedPath> PathsOf(std::size_t commodity,
                                    const controller::Assignment& assignment);

  const fabric::Topology& topology_;
  const FlowSet& flows_;
  std::uint32_t split_;
  controller::FabricView view_;
  std::vector<controller::Commodity> commodities_;  // the flows whose NICs have usable links
  std::vector<std::size_t> flow_of_;                // by commodity
};

}  // namespace espalier::offline
