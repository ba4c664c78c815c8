#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/metrics.h"
#include "controller/planning/start_predictor.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The planned paths of flows whose jobs repeat phases: one path for each subflow, for all phases.
//
// The plan makes the most loaded link carry as little as possible in every phase, whichever phases
// of different jobs meet, with as few changes of present paths as possible (AssignPhases). So a
// flow that becomes busy on its planned paths needs no decision. The plan is computed anew when the
// flows, the topology, or the loads of all other flows have changed, or when the phases have and
// the next look at them finds the same, but not more often than every kMinInterval.
//
// A job's flows have no planned paths until its phases are learned, and while it is not
// predictable. Thread safety: the controller's loop thread. The references must outlive it.
class PhasePlan {
 public:
  static constexpr Duration kMinInterval = std::chrono::milliseconds(500);

  PhasePlan(const State& state, const StartPredictor& predictor, Metrics& metrics);

  // Computes the plan anew if it is outdated. True: flows may have other planned paths than before.
  // O(flows) if it is not outdated; else the cost of AssignPhases.
  bool Refresh(TimePoint now);
  // The planned path of each of the flow's subflows; empty: it has none, or the topology has
  // changed since. Valid until Refresh.
  std::span<const std::int32_t> PathsOf(FlowSlot slot) const;
  // Whether the flow is on its planned paths.
  bool IsOnPlan(FlowSlot slot) const;
  // How long the flow is usually busy, in its longest phase; zero: not known.
  Duration DurationOf(FlowSlot slot) const {
    return slot.Index() < planned_.size() ? planned_[slot.Index()].duration : Duration{};
  }
  // Must be called before the flow is closed.
  void Forget(FlowSlot slot);
  // The flows that have planned paths, ascending.
  std::span<const FlowSlot> flows() const { return flows_; }

  // Load of the most loaded link in the worst meeting of phases, and a lower bound of it.
  const Load& max_load() const { return max_load_; }
  const Load& lower_bound() const { return lower_bound_; }

 private:
  struct Input;

  Input Describe() const;
  void Compute(const Input& input);

  const State& state_;
  const StartPredictor& predictor_;
  struct Planned {
    std::uint32_t first = 0;  // into paths_
    std::uint32_t count = 0;  // one for each subflow; 0: not planned
    Duration duration{};
  };

  std::vector<Planned> planned_;  // by slot
  std::vector<std::int32_t> paths_;
  std::vector<FlowSlot> flows_;
  std::int64_t version_ = -1;  // of the topology for which the plan was made
  // Of the input for which it was made; and of the phases at the last refresh.
  std::uint64_t flows_digest_ = 0;
  std::uint64_t phases_digest_ = 0;
  std::uint64_t seen_phases_digest_ = 0;
  TimePoint next_{};
  Load max_load_;
  Load lower_bound_;
  Counter& plans_;
  Gauge& planned_flows_;
  Gauge& max_load_gauge_;
};

}  // namespace espalier::controller
