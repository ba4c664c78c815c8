#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "controller/placement/port_binder.h"
#include "controller/planning/phase_plan.h"
#include "controller/routing/job_exchanges.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Lets jobs take turns where flows of one path cannot be spread evenly over the links of a leaf:
// beside a dead link, with a slow one, or with more flows than links. Without it, the same jobs are
// slowed as long as their flows live (JobExchanges). Once a period (rotate_paths_seconds), flows of
// jobs that have been slowed most lately exchange their spines with flows of the same leaf whose
// jobs have been slowed least, if the debts of the jobs differ by half a period or more. A job's
// *debt* is the time for which it was slowed, and falls to 1/e of that in kMemory periods. A lone
// job exchanges nothing, as each of its rounds would still wait for one slow flow.
//
// What may move: flows of one path that send (were busy since the look before, by edges or by
// bytes) and are settled: routed, not rerouted by their host, and with their last decision pushed.
// Flows with planned paths for their job's phases (PhasePlan) take part, parked or not. What they
// put on a link counts as in the worst meeting of phases, and the plan takes over their new paths;
// if that would make it worse, nothing is exchanged. An exchange waits up to half a period for a
// moment in which the flows that change places are idle, as far as their agents report that. Then
// busy ones move, too: every host makes such a move at a message boundary, as one that makes room
// for an arrival. The verbs shim drains a queue pair or changes its port on a device that can, a
// TCP program opens its next segment's connection from the new port.
//
// Bounds: at most kMostMoves moves in a period, of both flows and those that make room for them,
// and no flow with more bytes in flight than moved_bytes_per_start allows. Nothing moves with
// moves_per_start 0 or the greedy algorithm, which move no flows in progress, and nothing on
// fabrics other than 2-tier Clos ones.
//
// Thread safety: the controller's loop thread. The references must outlive it.
class Rotation {
 public:
  static constexpr int kMemory = 8;
  static constexpr std::size_t kMostMoves = 128;

  Rotation(State& state, PortBinder& ports, const ControllerOptions& options, Metrics& metrics);

  // Returns how many flows have moved. To be called ten times a second. O(1) within a period; else
  // O(1) if no path has changed since no leaf was uneven, O(links) if none is, and O(flows + links)
  // and the cost of JobExchanges otherwise.
  // `plan`: that of the jobs' phases, which follows what moves. While one is being computed,
  // nothing is looked at.
  std::size_t Tick(TimePoint now, PhasePlan& plan);

 private:
  // What a look at the flows has found.
  struct Look {
    std::vector<FlowSlot> busy;   // all that have sent
    std::vector<FlowSlot> slots;  // of senders: those of one path
    std::vector<Sender> senders;
    std::vector<std::int64_t> idle_loads;  // by directed link
    std::vector<double> debts;             // by job
  };
  // What a flow had done at the last look.
  struct Seen {
    std::uint64_t posted_bytes = 0;
    std::uint32_t edges = 0;
    bool was_busy = false;  // since the look before
  };

  bool IsEnabled() const;
  // Whether some leaf's links carry different loads.
  bool IsUneven();
  void NoteActivity();
  Look LookAtFlows(const PhasePlan& plan) const;
  bool MayMove(FlowSlot slot) const;
  void SetNicRates(Look& look) const;
  void CountDebts(TimePoint now, const Look& look);
  std::size_t Rotate(TimePoint now, PhasePlan& plan);
  bool HasToWait(TimePoint now, const Look& look, const JobExchanges::Choice& choice);
  // What flows put on each directed link in the worst meeting of phases; those without planned
  // paths do so all the time.
  std::vector<std::int64_t> WorstLoads(const PhasePlan& plan) const;
  // Makes the moves of these flows, and lets the plan follow. False, without any change, if links
  // would then be worse off in the worst meeting of phases.
  bool Take(const std::vector<OnlineAssigner::Move>& moves, const std::vector<FlowSlot>& flows,
            PhasePlan& plan);
  // Makes these moves, and has the flows' new ports pushed.
  std::size_t Move(TimePoint now, const Look& look, const JobExchanges::Choice& choice,
                   PhasePlan& plan);

  State& state_;
  PortBinder& ports_;
  const ControllerOptions& options_;
  std::optional<TimePoint> looked_;      // at the flows, last
  TimePoint next_{};                     // look
  std::uint64_t seen_changes_ = 0;       // FlowPaths::changes, when no leaf was uneven
  bool was_even_ = false;                // then
  std::vector<Seen> seen_;               // by slot
  std::map<std::string, double> debts_;  // seconds, by job
  std::optional<TimePoint> due_;         // since when flows are to exchange paths
  std::vector<FlowSlot> waiting_;        // for these to be idle
  Counter& exchanges_;
  Counter& moved_;
  Counter& refused_;
};

}  // namespace espalier::controller
