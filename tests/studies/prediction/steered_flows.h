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

// The controller's side of a replay: its state and decisions (Placement, StartPredictor) about the
// flows that it knows, without agents, ports and messages. Thread safety: one thread.
class SteeredFlows {
 public:
  SteeredFlows(const fabric::Topology& topology, bool plan_ahead);

  fabric::PathTable& paths() { return state_.paths; }

  // Reports a flow to the controller, which assigns paths to all flows without one.
  struct Opened {
    controller::FlowSlot slot;
    bool has_path = false;    // the flow crosses leaves and has a path
    std::size_t planned = 0;  // flows that got a precomputed path
  };
  Opened Open(const SimulatedFlow& flow, const std::string& job, std::uint64_t serial,
              TimePoint now);
  // Reports the flow's end.
  void Close(controller::FlowSlot slot, TimePoint now);
  // Reports the bytes that remain of a flow, and those that it has sent.
  void TakeProgress(controller::FlowSlot slot, std::uint64_t remaining_bytes,
                    std::uint64_t sent_bytes, TimePoint now);
  void Tick(TimePoint now) { predictor_.Tick(now); }
  // Precomputes one start; false if none is needed.
  bool PlanNext(TimePoint now) { return predictor_.PlanNext(now); }

  std::vector<controller::FlowSlot> All() const { return state_.flows.All(); }
  // The flow's assigned path, if it has a choice of paths.
  std::optional<std::int32_t> PathOf(controller::FlowSlot slot) const;
  // The predicted start of the job's next flows, and the end estimate of a flow.
  std::optional<TimePoint> NextStartOf(const std::string& job) const;
  std::optional<TimePoint> EndOf(controller::FlowSlot slot) const;

  // Compares the present assignment with one from scratch.
  struct Comparison {
    bool least_load = false;  // no higher maximum load
    bool as_good = false;     // and no worse for any job
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
