#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/simulator.h"
#include "controller/placement/placement.h"

namespace espalier::offline {

// The controller's side of a replay: its own state and decisions (Placement, Foresight) about
// the flows that it has heard of, without agents, ports and messages. Thread safety: one thread.
class SteeredFlows {
 public:
  SteeredFlows(const fabric::Topology& topology, bool plan_ahead);

  fabric::PathTable& paths() { return state_.paths; }

  // It hears of a flow of a job, and finds paths for all that have none.
  struct Opened {
    controller::FlowSlot slot;
    bool has_path = false;    // it goes between leaves, and has a path
    std::size_t planned = 0;  // of the flows that found a path: on that of a plan
  };
  Opened Open(const SimulatedFlow& flow, const std::string& job, std::uint64_t serial,
              TimePoint now);
  // It hears of the flow's end.
  void Close(controller::FlowSlot slot, TimePoint now);
  // What it hears that a flow has not sent yet.
  void TakeProgress(controller::FlowSlot slot, std::uint64_t remaining_bytes, TimePoint now);
  void Tick(TimePoint now) { predictor_.Tick(now); }
  // Makes one plan; false where none is to be made.
  bool PlanNext(TimePoint now) { return predictor_.PlanNext(now); }

  std::vector<controller::FlowSlot> All() const { return state_.flows.All(); }
  // The path that it wants the flow on, if that is one of several.
  std::optional<std::int32_t> PathOf(controller::FlowSlot slot) const;
  // When it expects the job's next flows to start, and a flow to end.
  std::optional<TimePoint> NextStartOf(const std::string& job) const;
  std::optional<TimePoint> EndOf(controller::FlowSlot slot) const;

  // What is there against all flows assigned from scratch.
  struct Comparison {
    bool least_load = false;  // no higher maximum load
    bool as_good = false;     // and no worse to any job
  };
  Comparison CompareWithFromScratch();

 private:
  Metrics metrics_;
  const controller::ControllerOptions options_;
  controller::State state_;
  controller::PathLearner learner_;
  controller::StartPredictor predictor_;
  controller::Placement placement_;
  controller::Assigner assigner_;
  controller::RatePredictor rates_;
};

}  // namespace espalier::offline
