#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "controller/state/flows/flow_table.h"

namespace espalier::controller {

// Who moves a flow, that is, changes its paths, ports or shares.
enum class Mover : std::uint8_t {
  kChain,     // a chain of moves that makes room for others (OnlineAssigner)
  kRelief,    // one flow at a time, off a link above its even share
  kPlan,      // the plan for the phases of its job (PhasePlan)
  kBurst,     // the flow itself: it has become busy and meets others
  kFailure,   // a path of it is broken
  kStandby,   // its host, which may go to a standby path
  kReturn,    // the flow itself, to another port of its path: its acknowledgements are lost
  kAnswer,    // the data that it acknowledges, which have moved (AnsweringEnds)
  kSplit,     // a division into other shares, on the paths that it has (SplitBalancer)
  kOperator,  // a recomputation of all flows
};

// Which flows a mover may move: those with one of these statuses, and, beside flows that nothing
// holds, those that the fields name.
struct MoverRule {
  Mover mover;
  std::uint16_t statuses = 0;  // bits by FlowStatus
  // Flows that cannot change their port in progress (ReportedFlow::movable is false).
  bool rigid = false;
  bool on_plan = false;   // flows on the paths that were planned for their job's phases
  bool rerouted = false;  // flows that their hosts have rerouted since the topology changed last
};

constexpr std::uint16_t StatusBit(FlowStatus status) {
  return static_cast<std::uint16_t>(1U << static_cast<unsigned>(status));
}

namespace movers {

constexpr std::uint16_t kInUse = StatusBit(FlowStatus::kNew) | StatusBit(FlowStatus::kAdopting) |
                                 StatusBit(FlowStatus::kLearning) | StatusBit(FlowStatus::kRouted);
constexpr std::uint16_t kSteered = kInUse | StatusBit(FlowStatus::kUnroutable);
constexpr std::uint16_t kKnown = kSteered & ~StatusBit(FlowStatus::kAdopting);
constexpr std::uint16_t kRouted = StatusBit(FlowStatus::kRouted);

}  // namespace movers

// One row for each mover, in the order of Mover. A flow that is UNSTEERED, LOCAL or FIXED is moved
// by nobody.
inline constexpr std::array kMoverRules = {
    MoverRule{.mover = Mover::kChain, .statuses = movers::kInUse, .rerouted = true},
    MoverRule{.mover = Mover::kRelief, .statuses = movers::kRouted, .rerouted = true},
    MoverRule{.mover = Mover::kPlan, .statuses = movers::kSteered, .on_plan = true},
    MoverRule{
        .mover = Mover::kBurst, .statuses = movers::kKnown, .on_plan = true, .rerouted = true},
    MoverRule{.mover = Mover::kFailure,
              .statuses = movers::kSteered,
              .rigid = true,
              .on_plan = true,
              .rerouted = true},
    MoverRule{
        .mover = Mover::kStandby, .statuses = movers::kRouted, .on_plan = true, .rerouted = true},
    MoverRule{
        .mover = Mover::kReturn, .statuses = movers::kRouted, .on_plan = true, .rerouted = true},
    MoverRule{
        .mover = Mover::kAnswer, .statuses = movers::kKnown, .on_plan = true, .rerouted = true},
    MoverRule{.mover = Mover::kSplit, .statuses = movers::kInUse, .rerouted = true},
    MoverRule{
        .mover = Mover::kOperator, .statuses = movers::kSteered, .on_plan = true, .rerouted = true},
};

// Whether this mover may move the flow. `version`: of the topology. O(1).
constexpr bool MayMove(const Flow& flow, Mover mover, std::int64_t version) {
  const MoverRule& rule = kMoverRules[static_cast<std::size_t>(mover)];
  return (rule.statuses & StatusBit(flow.status)) != 0 && (flow.movable || rule.rigid) &&
         (!flow.is_on_plan || rule.on_plan) && (flow.rerouted_in != version || rule.rerouted);
}

}  // namespace espalier::controller
