#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/model/assignment.h"
#include "controller/state/reach.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Flows between leaves as assigners see them. Commodity i describes the flow slots[i].
struct Elephants {
  std::vector<FlowSlot> slots;
  std::vector<Commodity> commodities;
  std::vector<bool> can_move;  // by commodity
  // By commodity, 1 if it has one subflow, or does not send in proportion to shares that it is
  // given.
  std::vector<std::uint8_t> is_rigid;

  // Whether unequal shares can be given to one of them.
  bool MayBeUneven() const { return std::ranges::find(is_rigid, 0) != is_rigid.end(); }
  // The load that no assignment of flows changes, by directed link in 1 / kLoadUnit of a flow:
  // background traffic, and what tree edges reserve. Links in any state may have some.
  std::vector<std::int64_t> base_loads;
};
// Describes those of these flows that cross the fabric, in the same order. O(flows + links).
Elephants DescribeElephants(const State& state, std::span<const FlowSlot> slots);
// Their present paths and maximum load; lower_bound is not set.
Assignment CurrentPaths(const State& state, const Elephants& elephants);
// The maximum load of these paths over the usable links of the view, with base loads.
Load MaxLoadOf(const FabricView& view, const Elephants& elephants, const Assignment& paths);
// No assignment in which the flows that cannot move keep these paths has a smaller maximum load,
// not even one with unequal shares if some flows heed them.
Load LowerBoundOf(const FabricView& view, const Elephants& elephants, const Assignment& paths);
// The paths of the flows that cannot move: AssignOptions::fixed_paths.
std::vector<std::int32_t> FixedPathsOf(const Elephants& elephants, const Assignment& paths);

// The flows that operators' figures count: all open flows with paths, also those that pause between
// bursts, but not those that only acknowledge.
bool CountsInSummary(const State& state, const Flow& flow, FlowSlot slot);
// What each directed link carries at its busiest, in 1 / kLoadUnit of a flow: what is always there,
// plus for each job whose phases are known what its busiest phase puts on the link. Flows without
// known phases count all the time. `paths`: of the elephants. O(flows x phases x hops + links).
std::vector<std::int64_t> BusiestLoads(const State& state, const FabricView& view,
                                       const Elephants& elephants, const Assignment& paths);
// The same for the present paths.
std::vector<std::int64_t> BusiestLoads(const State& state);

// What a new assignment may choose while the phases of some jobs are known: the flows in phases
// have one path for all of them, by the plan of phases (PhasePlan), whichever are busy at the
// moment.
struct AroundPhases {
  std::vector<std::size_t> places;  // of the elephants in no phase
  Elephants elephants;              // those; base loads: also the busiest phases of the others
  Assignment paths;                 // of those, with their maximum load
};
// `paths`: of the elephants. O(flows x phases x hops + links).
AroundPhases DescribeAroundPhases(const State& state, const FabricView& view,
                                  const Elephants& elephants, const Assignment& paths);

// Which flows the figures leave out, so that they are no verdict on all of them.
struct LeftOut {
  std::int64_t unsteered = 0;  // they stay where ECMP has put them
  std::int64_t waiting = 0;    // their port for the decided path is not known yet
  bool unreachable = false;    // some flow has a candidate path that no source port takes

  bool IsNothing() const { return unsteered + waiting == 0 && !unreachable; }
};

// How well flows are spread over the links, and how many do not get through. The figures are those
// of BusiestLoads, so that they do not follow every burst.
struct LoadSummary {
  Load max_load;      // of the most loaded direction of a link between switches
  Load lower_bound;   // no assignment of the flows that can move has a smaller maximum load
  ReachCounts reach;  // of all flows and forest edges
  LeftOut left_out;
  std::int64_t compared = 0;      // flows with paths
  bool are_phases_known = false;  // of some of them; else all count as sending at once

  // No assignment is better. False if a flow is cut off, or left out: then this is not known.
  bool IsOptimal() const {
    return max_load <= lower_bound && reach.CutOff() == 0 && left_out.IsNothing();
  }
};
// The summary of these elephants on these paths, but for `reach` and `left_out`.
LoadSummary SummarizePaths(const State& state, const FabricView& view, const Elephants& elephants,
                           const Assignment& paths);
// Summarises all flows that have paths, with background traffic and what tree edges reserve.
// O(flows x hops + links): for views and operators, not to be called for every arrival.
LoadSummary Summarize(const State& state);
// Of all flows. O(flows).
LeftOut CountLeftOut(const State& state);
// The theorem by which a recomputation of these flows is sure to reach the lower bound of
// Summarize: that of the fabric (StandingProof), if all flows have equally many subflows of equal
// shares, can move and are in no phase, and there is no other traffic. O(flows + links): for
// operators.
Proof FindTheorem(const State& state);

}  // namespace espalier::controller
