#include "controller/placement/placement.h"

#include <set>
#include <string_view>
#include <utility>

namespace espalier::controller {

Placement::Placement(State& state, PathLearner& learner, const ControllerOptions& options,
                     Metrics& metrics)
    : state_(state),
      decisions_(state.decisions),
      returns_(state, learner),
      ports_(state, decisions_, learner, returns_),
      return_watch_(state, decisions_, ports_),
      admission_(state, decisions_, learner, options),
      starts_(state, decisions_, ports_, options),
      rerouter_(state, decisions_, starts_, ports_),
      local_reroutes_(state, decisions_, learner, admission_, starts_, ports_),
      standbys_(state, decisions_, ports_, metrics),
      splits_(state, decisions_, state.history, options, local_reroutes_, metrics),
      steering_(state, decisions_, learner, starts_, ports_, local_reroutes_),
      what_if_(state, state.view, decisions_, ports_, options) {}

void Placement::Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports) {
  const bool is_steered = steering_.IsSteered(state_.flows.At(slot));
  admission_.Admit(slot, is_steered ? steered_ports : std::span<const std::uint16_t>());
  // Only now its ends are known, and whether its packets are sprayed.
  if (steering_.IsSteered(state_.flows.At(slot))) return;
  if (!IsSteerable(state_.flows.At(slot))) return;
  steering_.TurnOff(slot);
  steering_.Observe(slot);
}

void Placement::Release(FlowSlot slot) {
  starts_.HandleEnd();
  local_reroutes_.Forget(slot);
  decisions_.Release(slot);
}

std::vector<Rerouted> Placement::HandleLinkChange() {
  steering_.HandleLinkChange();
  std::vector<Rerouted> rerouted = rerouter_.HandleLinkChange();
  return_watch_.HandleLinkChange();
  return_watch_.RerouteDeadReturns();
  return rerouted;
}

void Placement::Revisit(FlowSlot slot) {
  const FlowStatus status = state_.flows.At(slot).status;
  if (status == FlowStatus::kAdopting) {
    admission_.Adopt(slot);
  } else if (status == FlowStatus::kLearning || status == FlowStatus::kRouted) {
    ports_.Revisit(slot);
  } else if (status == FlowStatus::kUnsteered) {
    steering_.Observe(slot);
  }
}

void Placement::RevisitSome(const TimeBudget& budget) {
  constexpr std::size_t kBetweenLooks = 16;  // at the clock
  for (std::size_t visits = 1; !revisits_.IsEmpty(); ++visits) {
    if (const auto slot = revisits_.Next(state_)) {
      Revisit(*slot);
    } else {
      return_watch_.HandleReturnPathChange(revisits_.key());
    }
    if (visits % kBetweenLooks == 0 && budget.IsSpent()) return;
  }
}

std::size_t Placement::Relieve(std::size_t move_limit) {
  const auto relieved = starts_.Relieve(move_limit);
  const auto moved = relieved ? *relieved : starts_.RelieveOneByOne(move_limit);
  for (const FlowSlot slot : moved) ports_.ChoosePorts(slot, wire::PathReason::kAssigned);
  return moved.size();
}

Placement::Relief Placement::RelieveLater(TimePoint now, std::size_t move_limit) {
  if (!relief_ || now < relief_->at) return {};
  Relief relief = *std::exchange(relief_, std::nullopt);
  // While hosts have left paths that they found dead, what looks free may be dead for all.
  const bool is_guess = std::string_view(relief.why) == "reachable_paths";
  if (is_guess && local_reroutes_.AreInForce()) return {};
  relief.moved = Relieve(move_limit);
  if (relief.moved > 0) relief_ = {now + kReliefInterval, relief.why};
  return relief;
}

void Placement::PlaceUnroutable() {
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (flow.status == FlowStatus::kUnroutable && !flow.subflows.empty()) {
      decisions_.PlaceAgain(slot);
    }
  }
}

}  // namespace espalier::controller
