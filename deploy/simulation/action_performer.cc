#include "deploy/simulation/action_performer.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"

namespace espalier::simulation {

using fabric::LinkState;

ActionPerformer::ActionPerformer(Cluster& cluster, const std::vector<Action>& actions,
                                 EventLog& log)
    : cluster_(cluster), actions_(actions), log_(log), loop_(cluster.world().MakeLoop()) {}

void ActionPerformer::Begin() {
  for (const Action& action : actions_) {
    timers_.push_back(loop_->After(action.at, [this, &action] { Perform(action); }));
  }
}

std::string ActionPerformer::Describe(const Action& action) const {
  std::string text(ActionName(action.kind));
  for (const std::string& target : {action.link, action.node}) {
    if (!target.empty()) text += " " + target;
  }
  if (action.host >= 0) text += " " + cluster_.HostName(action.host);
  return text;
}

void ActionPerformer::Perform(const Action& action) {
  log_.Add(loop_->Now(), "action", Describe(action));
  switch (action.kind) {
    case ActionKind::kFail:
    case ActionKind::kRestore:
    case ActionKind::kDrain:
    case ActionKind::kUndrain:
    case ActionKind::kRecompute:
      return PerformOperators(action);
    case ActionKind::kLinkDown:
      return SetLinks(action, LinkState::kDown);
    case ActionKind::kLinkUp:
      return SetLinks(action, LinkState::kUp);
    case ActionKind::kRehash: {
      sim::SimFabric& fabric = cluster_.fabric();
      const fabric::NodeId node = *fabric.topology().FindNode(action.node);
      const auto set = fabric.SetHashSeed(node, action.hash_seed);
      ESPALIER_CHECK(set, "error={}", set.error().message);
      return;
    }
    case ActionKind::kControllerDown:
    case ActionKind::kControllerUp:
    case ActionKind::kAgentDown:
    case ActionKind::kAgentUp:
      return StartOrKill(action);
    case ActionKind::kPartition:
    case ActionKind::kHeal:
    case ActionKind::kMessages:
      return DisturbNetwork(action);
  }
}

void ActionPerformer::PerformOperators(const Action& action) {
  controller::OperatorRequest request;
  request.actor = "scenario";
  request.reason = "scenario";
  auto done = [this, text = Describe(action)](const Result<controller::ActionOutcome>& outcome) {
    if (outcome) {
      log_.Add(loop_->Now(), "action_done",
               fmt::format("{} moved={}", text, outcome->moves.size()));
    } else {
      log_.Add(loop_->Now(), "action_refused",
               fmt::format("{}: {}", text, outcome.error().message));
    }
  };
  controller::OperatorActions& actions = cluster_.controller().actions();
  if (action.kind == ActionKind::kRecompute) return actions.Recompute(request, std::move(done));
  const auto intent = [&] {
    switch (action.kind) {
      case ActionKind::kFail:
        return controller::IntentAction::kFail;
      case ActionKind::kRestore:
        return controller::IntentAction::kRestore;
      case ActionKind::kDrain:
        return controller::IntentAction::kDrain;
      default:
        return controller::IntentAction::kUndrain;
    }
  }();
  if (action.link.empty()) {
    actions.ChangeNode(action.node, intent, request, std::move(done));
  } else {
    actions.ChangeLink(action.link, intent, request, std::move(done));
  }
}

void ActionPerformer::SetLinks(const Action& action, LinkState state) {
  sim::SimFabric& fabric = cluster_.fabric();
  const fabric::Topology& topology = fabric.topology();
  if (!action.link.empty()) return fabric.SetLink(*topology.FindLink(action.link), state);
  const fabric::NodeId node = *topology.FindNode(action.node);
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const fabric::LinkId id(static_cast<std::int32_t>(i));
    const fabric::Link& link = topology.link(id);
    if ((link.a == node || link.b == node) && topology.IsSwitchToSwitch(id))
      fabric.SetLink(id, state);
  }
}

void ActionPerformer::StartOrKill(const Action& action) {
  switch (action.kind) {
    case ActionKind::kControllerDown:
      log_.Collect(cluster_);
      return cluster_.KillController();
    case ActionKind::kControllerUp:
      return cluster_.StartController();
    case ActionKind::kAgentDown:
      return cluster_.KillAgent(action.host);
    default:
      return cluster_.StartAgent(action.host);
  }
}

void ActionPerformer::DisturbNetwork(const Action& action) {
  sim::SimNetwork& network = cluster_.network();
  if (action.kind == ActionKind::kMessages) {
    if (action.host < 0) return network.SetFaults(action.faults);
    return network.SetFaults(cluster_.HostName(action.host), action.faults);
  }
  const std::string& host = cluster_.HostName(action.host);
  action.kind == ActionKind::kPartition ? network.Partition(host) : network.Heal(host);
}

}  // namespace espalier::simulation
