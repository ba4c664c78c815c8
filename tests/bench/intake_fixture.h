#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/fabric/builders.h"
#include "common/sim/sim_world.h"
#include "controller/agents/flow_intake.h"
#include "tests/bench/hashed_fabric.h"

namespace espalier::controller {

// The controller's modules between the decoded report of an agent and the decision, on one thread,
// without messages, an hour after the beginning of virtual time. Every host of the fabric has an
// agent that is connected and in step.
class IntakeFixture {
 public:
  IntakeFixture(int spines, int leaves, int hosts_per_leaf)
      : state_(bench::MakeHashedLeafSpine(spines, leaves, hosts_per_leaf)),
        learner_(state_.topology, state_.paths, state_.path_map, {}, metrics_),
        placement_(state_, learner_, options_, metrics_),
        predictor_(state_, learner_, options_, metrics_),
        bursts_(state_, state_.decisions, placement_.ports(), predictor_, options_, metrics_),
        watch_(state_, learner_),
        intake_(state_, placement_, bursts_, predictor_, watch_, options_, *loop_, [] {}) {
    SetLogLevel(LogLevel::kError);
    world_.RunFor(std::chrono::hours(1));
    for (int host = 0; host < leaves * hosts_per_leaf; ++host) {
      const AgentId id = state_.agents.Intern(bench::HostName(host));
      agents_.push_back(id);
      addresses_.push_back(bench::AddressOf(state_.topology, host));
      state_.agents.Connect(id, PeerId(static_cast<std::uint64_t>(host) + 1));
      state_.agents.At(id).reported = true;
    }
  }

 protected:
  // What follows the reports of a turn, and of a period of the job.
  void PlaceNew() {
    if (state_.flows.HasNew()) placement_.PlaceNew(predictor_, options_.moves_per_start);
  }
  void EndPeriod() {
    predictor_.Tick(loop_->Now());
    bursts_.RefreshPlan(loop_->Now());
  }

  Metrics metrics_;
  ControllerOptions options_;
  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  State state_;
  PathLearner learner_;
  Placement placement_;
  StartPredictor predictor_;
  Bursts bursts_;
  BurstWatch watch_;
  FlowIntake intake_;
  std::vector<AgentId> agents_;       // by host
  std::vector<IpAddress> addresses_;  // by host
};

}  // namespace espalier::controller
