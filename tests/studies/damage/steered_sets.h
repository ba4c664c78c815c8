#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/simulator.h"
#include "controller/placement/placement.h"
#include "tests/studies/damage/set_transfers.h"

namespace espalier::offline {

// The controller's decisions about the path sets of a workload, made by its own parts: flows arrive
// (Placement), all are recomputed, standby paths are chosen (Standbys), and failures are handled by
// their plans (FailurePlans). There are no agents, ports or messages: every path has a port.
// Thread safety: one thread.
class SteeredSets {
 public:
  struct Options {
    std::uint8_t paths = 1;  // of a set; fewer where the fabric has fewer
    // Programs send by weights, so that the controller may divide flows unequally.
    bool keeps_weights = false;
  };
  // Places the flows of the workload, and recomputes. The workload must outlive it.
  // Errors: kFailedPrecondition if a flow has no path.
  static Result<std::unique_ptr<SteeredSets>> Make(const fabric::Topology& topology,
                                                   const Workload& workload,
                                                   const Options& options);

  // The present set of each flow of the workload. After a failure, all must have a path.
  std::vector<std::vector<SetPath>> Sets() const;
  // The controller's standby paths, in the places of the paths; without links if there is none.
  std::vector<std::vector<SetPath>> StandbySets() const;
  // Chooses standby paths and makes failure plans, until nothing is missing or can be chosen.
  void Prepare();
  // What the controller tells of the worst single failure, if all hosts concerned go to their
  // standbys and it does nothing: the load of the busiest link, relative to the fastest link.
  double PromisedLoad() const { return placement_.standbys().WorstFailure().load; }

  // Hosts go to their standbys from all paths over this link. Returns how many paths they left.
  std::size_t GoToStandbys(fabric::LinkId link);
  // The controller takes the link out of service. Flows on it take their backup paths, or are
  // placed again where the plan has none; if hosts have moved (`moved` paths), the controller makes
  // room for them as after local reroutes. Returns how many flows took backup paths.
  std::size_t HandleFailure(fabric::LinkId link, std::size_t moved);
  // `espalier recompute`, and what the controller does later by itself: where links are dead, it
  // divides flows that send by weights unequally.
  void Recompute();

 private:
  SteeredSets(const fabric::Topology& topology, const Workload& workload, const Options& options);
  void Open(const SimulatedFlow& flow, const Options& options);
  // Ports are left out, so that flows which wait for one have it.
  void CompleteRouting();
  std::size_t CountWithoutStandby() const;
  const controller::Flow& FlowAt(std::uint32_t flow) const { return state_.flows.At(slots_[flow]); }
  SetPath MakePath(const controller::Flow& flow, std::int32_t path, double share) const;

  const Workload& workload_;
  Metrics metrics_;
  const controller::ControllerOptions options_{.plan_ahead = false};
  controller::State state_;
  controller::PathLearner learner_;
  controller::StartPredictor predictor_;
  controller::Placement placement_;
  controller::FailurePlans failure_plans_;
  std::vector<controller::FlowSlot> slots_;  // by flow of the workload
  TimePoint clock_{std::chrono::hours(1)};
};

}  // namespace espalier::offline
