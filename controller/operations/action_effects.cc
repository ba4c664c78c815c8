#include "controller/operations/action_effects.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace espalier::controller {

using fabric::LinkId;
using fabric::LinkState;

ActionEffects::ActionEffects(const Parts& parts, const ControllerOptions& options, EventLoop& loop,
                             Callbacks callbacks, Metrics& metrics)
    : parts_(parts),
      state_(parts.state),
      options_(options),
      loop_(loop),
      callbacks_(std::move(callbacks)),
      failure_hits_(metrics.MakeCounter(
          "espalier_failure_plan_hits_total",
          "Flows that were moved off a failed link or switch to a precomputed backup path")),
      failure_misses_(metrics.MakeCounter("espalier_failure_plan_misses_total",
                                          "Flows that were moved off a failed or drained link or "
                                          "switch without a precomputed backup path")),
      failure_seconds_(metrics.MakeLatency(
          "espalier_failure_decision_seconds",
          "Time from the detection of a failure until its backup paths were handed to the bus")),
      recomputations_(metrics.MakeCounter("espalier_controller_recomputations_total",
                                          "Recomputations of all flows that operators requested")),
      recompute_seconds_(metrics.MakeLatency("espalier_controller_recompute_seconds",
                                             "Duration of a recomputation of all flows")) {}

std::vector<Rerouted> ActionEffects::TakeFailurePlan(const std::vector<LinkId>& changed) {
  const auto domain = options_.plan_ahead ? parts_.failure_plans.Find(changed) : std::nullopt;
  const auto affected = parts_.link_states.affected();
  if (!domain || affected.empty()) return {};
  const TimePoint start = loop_.Now();
  auto rerouted = parts_.placement.TakeFailurePlan(
      parts_.failure_plans, *domain, affected,
      [&](AgentId agent) { parts_.publisher.PushChangesOf(agent, start); });
  failure_hits_.Add(static_cast<std::int64_t>(rerouted.size()));
  failure_seconds_.ObserveSeconds(SecondsOf(loop_.Now() - start));
  return rerouted;
}

std::vector<Rerouted> ActionEffects::FollowLinkChanges(const std::vector<LinkId>& changed) {
  if (changed.empty()) return {};
  const auto lost_or_returned = parts_.link_states.lost_or_returned();
  if (!lost_or_returned.empty()) parts_.learner.HandleLinkChange(lost_or_returned);
  std::vector<Rerouted> moves = parts_.placement.HandleLinkChange();
  failure_misses_.Add(static_cast<std::int64_t>(moves.size()));
  parts_.placement.PlaceUnroutable();
  const auto has_returned = [&](LinkId link) {
    return state_.topology.link(link).state == LinkState::kUp;
  };
  if (std::ranges::any_of(changed, has_returned)) {
    parts_.placement.HandleReturnedLinks(loop_.Now());
  }
  parts_.jobs.HandleLinkChange(changed);
  if (lost_or_returned.empty()) {
    parts_.verifier.HandleDrain();
  } else {
    parts_.verifier.HandleLinkChange(lost_or_returned);
  }
  return moves;
}

void ActionEffects::HandleHealthChange() {
  const std::vector<LinkId> changed = parts_.link_states.Apply();
  TakeFailurePlan(changed);
  FollowLinkChanges(changed);
  callbacks_.request_turn();
}

ActionOutcome ActionEffects::Try(const Intents& intents) {
  ActionOutcome outcome;
  outcome.before = outcome.after = Summarize(state_);
  const std::optional<fabric::Topology> trial = parts_.link_states.TopologyUnder(intents);
  const bool reweighs = intents.weights != state_.intents.weights;
  const bool resteers = intents.steering != state_.intents.steering;
  if (!trial && !reweighs && !resteers) return outcome;
  Recomputation tried =
      trial || resteers
          ? parts_.placement.what_if().TryChange(trial ? *trial : state_.topology, intents.steering,
                                                 reweighs ? &intents.weights : nullptr)
          : parts_.placement.what_if().Recompute(intents.weights, /*dry_run=*/true);
  outcome.moves = std::move(tried.moves);
  outcome.after = tried.after;
  if (trial) outcome.forests = parts_.jobs.CountBroken(*trial);
  return outcome;
}

AppliedAction ActionEffects::Apply(const Intents& changed) {
  const bool reweighs = changed.weights != state_.intents.weights;
  const bool resteers = changed.steering != state_.intents.steering;
  std::vector<LinkState> states_before;
  for (const fabric::Link& link : state_.topology.links()) states_before.push_back(link.state);
  state_.intents = changed;
  callbacks_.apply_policies();
  const std::vector<LinkId> links = parts_.link_states.Apply();
  AppliedAction applied;
  applied.outcome.forests = parts_.jobs.CountBroken(state_.topology);
  for (const LinkId link : links) applied.changed.emplace_back(link, states_before[link.Index()]);
  // The failure plan comes first, because the rest visits every flow.
  applied.rerouted = TakeFailurePlan(links);
  const std::vector<Rerouted> others = FollowLinkChanges(links);
  applied.rerouted.insert(applied.rerouted.end(), others.begin(), others.end());
  if (resteers) {
    const std::vector<Rerouted> resteered = parts_.placement.ApplySteering();
    applied.rerouted.insert(applied.rerouted.end(), resteered.begin(), resteered.end());
  }
  parts_.jobs.Apply(changed.jobs);
  const bool has_moved = !links.empty() || !applied.rerouted.empty();
  if (!reweighs && has_moved) return applied;
  // Moves by weights are reported relative to the state after the other changes.
  if (has_moved) {
    ComputeOutcome(applied);
  } else {
    applied.outcome.before = Summarize(state_);
  }
  if (reweighs) {
    const auto reweighed = parts_.placement.what_if().Recompute(changed.weights, /*dry_run=*/false);
    std::vector<FlowMove>& moves = applied.outcome.moves;
    moves.insert(moves.end(), reweighed.moves.begin(), reweighed.moves.end());
  }
  applied.outcome.after = Summarize(state_);
  return applied;
}

ActionOutcome ActionEffects::Reassign(const OperatorRequest& request) {
  const TimePoint start = loop_.Now();
  Recomputation recomputed = parts_.placement.what_if().Recompute(
      state_.intents.weights, request.dry_run, request.max_moved_bytes);
  recompute_seconds_.ObserveSeconds(SecondsOf(loop_.Now() - start));
  ActionOutcome outcome;
  outcome.forests = parts_.jobs.all().size();
  if (!request.dry_run) {
    recomputations_.Add();
    outcome.forests = parts_.jobs.ReplanAll();  // on the residual capacity after the moves
  }
  outcome.moves = std::move(recomputed.moves);
  outcome.before = recomputed.before;
  outcome.after = recomputed.after;
  return outcome;
}

void ActionEffects::ComputeOutcome(AppliedAction& applied) {
  if (applied.changed.empty() && applied.rerouted.empty()) return;
  fabric::Topology before = state_.topology;
  for (const auto& [link, state] : applied.changed) before.SetLinkState(link, state);
  applied.outcome.before = SummarizeBefore(state_, before, applied.rerouted);
  applied.outcome.moves = Describe(state_, applied.rerouted);
  applied.outcome.after = Summarize(state_);
  applied.rerouted.clear();
  applied.changed.clear();
}

}  // namespace espalier::controller
