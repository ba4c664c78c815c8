#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/metrics.h"
#include "controller/planning/phase_looks.h"
#include "controller/planning/start_predictor.h"
#include "controller/routing/fabric/fabric_copy.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The planned paths of flows whose jobs repeat phases: one path for each subflow, for all phases.
//
// The plan makes the most loaded link carry as little as possible in every phase, whichever phases
// of different jobs meet, with as few changes of present paths as possible (AssignPhases). So a
// flow that becomes busy on its planned paths needs no decision. The plan is recomputed when the
// flows, the topology, or the loads of all other flows have changed, or when the phases of a job
// have and last (PhaseLooks), but not more often than every kMinInterval.
//
// It is computed off the loop's thread (ControllerOptions::background), which may take seconds in a
// large fabric: then the next one waits for as long as this one has taken. Meanwhile, the plan
// before it holds. When links have failed, some of its paths are dead (PathsOf), but all other
// flows stay where they are. A plan for links that have changed while it was computed is dropped,
// but not if there is none before it, nor twice in a row: where links change all the time, it is
// better than none.
//
// A job's flows have no planned paths until its phases are learned, and while it is not
// predictable. Thread safety: the controller's loop thread. The references must outlive it.
class PhasePlan {
 public:
  static constexpr Duration kMinInterval = std::chrono::milliseconds(500);
  static constexpr Duration kMostInterval = std::chrono::seconds(5);

  PhasePlan(const State& state, const StartPredictor& predictor, const ControllerOptions& options,
            Metrics& metrics);

  // Takes a plan that has been computed, or begins to compute one if the present one is outdated.
  // True: flows may have other planned paths than before. To be called periodically. O(flows +
  // links) at most once every kMinInterval, and once every kMostInterval while nothing changes and
  // the plan is up to date; without ControllerOptions::background also the cost of AssignPhases.
  bool Refresh(TimePoint now);
  // The planned path of each of the flow's subflows, which may be unusable by now; empty: it has
  // none. Valid until Refresh.
  std::span<const std::int32_t> PathsOf(FlowSlot slot) const;
  // Whether the flow is on its planned paths.
  bool IsOnPlan(FlowSlot slot) const;
  // How long the flow is usually busy, in its longest phase; zero: not known.
  Duration DurationOf(FlowSlot slot) const {
    return slot.Index() < planned_.size() ? planned_[slot.Index()].duration : Duration{};
  }
  // Begins to load what the calls about this flow read.
  void Prefetch(FlowSlot slot) const {
    if (slot.Index() < planned_.size()) __builtin_prefetch(&planned_[slot.Index()]);
  }
  // Must be called before the flow is closed.
  void Forget(FlowSlot slot);
  // The flows that have planned paths, ascending.
  std::span<const FlowSlot> flows() const { return flows_; }

  // Their phases, by job.
  std::span<const FlowPhases::Job> phases() const { return phases_; }

  // Load of the most loaded link in the worst meeting of phases, and a lower bound of it.
  const Load& max_load() const { return max_load_; }
  const Load& lower_bound() const { return lower_bound_; }

 private:
  struct Input;
  struct Making;

  Input Describe() const;
  // Whether nothing has changed since the last Describe, as far as that is quickly known, and the
  // plan is made for what it said.
  bool IsUpToDate(TimePoint now);
  std::uint64_t DigestOfLinks() const;  // of the capacities of usable links between switches
  void BeginToMake(Input input, TimePoint now);
  // Takes the plan that has been made, if there is one. True: it is in force now.
  bool TakeMade(TimePoint now);
  void PutInForce(const Making& made);

  const State& state_;
  const StartPredictor& predictor_;
  const ControllerOptions& options_;
  struct Planned {
    std::uint32_t first = 0;  // into paths_
    std::uint32_t count = 0;  // one for each subflow; 0: not planned
    Duration duration{};
  };

  std::vector<Planned> planned_;  // by slot
  std::vector<std::int32_t> paths_;
  std::vector<FlowSlot> flows_;
  std::vector<FlowPhases::Job> phases_;
  std::int64_t seen_version_ = -1;      // of the topology at the last refresh
  std::shared_ptr<FabricCopy> fabric_;  // for AssignPhases; only making_ has access to it
  std::shared_ptr<Making> making_;      // the plan that is being computed
  // Of the input for which the latest plan was made, or is being.
  std::uint64_t flows_digest_ = 0;
  PhaseLooks looks_;
  // Of what tells quickly whether there is anything new, at the last Describe, and when that was.
  std::uint64_t quick_digest_ = 0;
  TimePoint described_{};
  bool is_current_ = false;   // the plan was made for what that said
  bool has_dropped_ = false;  // the last plan that was made
  TimePoint next_{};
  Load max_load_;
  Load lower_bound_;
  Counter& plans_;
  Gauge& planned_flows_;
  Gauge& max_load_gauge_;
};

}  // namespace espalier::controller
