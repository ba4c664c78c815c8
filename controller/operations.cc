// What the controller does on the word of the operator.
#include <fmt/format.h>

#include <algorithm>

#include "controller/controller.h"

namespace espalier::controller {

using fabric::LinkId;
using fabric::LinkState;

namespace {

struct ActionWords {
  bool add;  // an intent is added, or taken back
  std::string_view event;
  std::string_view already;
};

ActionWords WordsFor(LinkAction action) {
  switch (action) {
    case LinkAction::kFail:
      return {true, "link_failed", "is failed already"};
    case LinkAction::kRestore:
      return {false, "link_restored", "is not failed"};
    case LinkAction::kDrain:
      return {true, "link_drained", "is drained already"};
    case LinkAction::kUndrain:
      return {false, "link_undrained", "is not drained"};
  }
  return {};
}

// True if the set of intents changed.
bool Change(std::map<std::string, std::string>& intents, const std::string& id, bool add,
            const std::string& reason) {
  return add ? intents.emplace(id, reason).second : intents.erase(id) > 0;
}

}  // namespace

LinkState Controller::EffectiveState(LinkId id, const Intents& intents) const {
  const fabric::Link& link = state_.topology.link(id);
  const auto node_failed = [&](fabric::NodeId node) {
    return intents.failed_nodes.contains(state_.topology.node(node).id);
  };
  const LinkState in_file =
      intents.restored_links.contains(link.id) ? LinkState::kUp : initial_states_[id.Index()];
  if (intents.failed_links.contains(link.id) || node_failed(link.a) || node_failed(link.b) ||
      state_.reported_down.contains(id) || in_file == LinkState::kDown) {
    return LinkState::kDown;
  }
  return intents.drained_links.contains(link.id) ? LinkState::kDrained : in_file;
}

std::vector<LinkId> Controller::ApplyIntents() {
  std::vector<LinkId> changed;
  for (std::size_t i = 0; i < state_.topology.links().size(); ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    if (state_.topology.SetLinkState(id, EffectiveState(id, state_.intents))) {
      changed.push_back(id);
    }
  }
  return changed;
}

std::vector<FlowMove> Controller::ReactToLinkChanges(const std::vector<LinkId>& changed) {
  if (changed.empty()) return {};
  for (const LinkId link : changed) learner_.HandleLinkChange(link);
  std::vector<FlowMove> moves = placement_.MoveOffUnusable();
  placement_.RetryUnroutable();
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (flow.status == FlowStatus::kRouted) {
      const auto entry = state_.path_map.Find(flow.key, flow.port);
      if (entry && entry->trust == fabric::PortTrust::kReverify) {
        learner_.Verify(flow.key, flow.port);
      }
    }
  }
  return moves;
}

std::vector<FlowMove> Controller::WouldMove(const Intents& intents) {
  // The flows whose path would not be usable any more; where to is decided when it happens.
  std::vector<FlowMove> moves;
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (!flow.path) continue;
    const fabric::Path& path = state_.PathsOf(flow)[flow.path->Index()];
    const bool breaks = std::any_of(path.hops.begin(), path.hops.end(), [&](auto hop) {
      return EffectiveState(hop.link, intents) != LinkState::kUp;
    });
    if (!breaks) continue;
    moves.push_back({state_.FlowName(flow), state_.flows.JobName(flow.job),
                     fabric::ViaNames(state_.topology, path), ""});
  }
  return moves;
}

Result<ActionOutcome> Controller::ApplyIntentChange(Intents changed, const std::string& event,
                                                    bool dry_run) {
  ActionOutcome outcome;
  if (dry_run) {
    outcome.version = state_.topology.version();
    outcome.moves = WouldMove(changed);
    return outcome;
  }
  Result<void> saved = store_.Save(changed);
  if (!saved) return Propagate(saved);
  state_.intents = std::move(changed);
  outcome.moves = ReactToLinkChanges(ApplyIntents());
  outcome.version = state_.topology.version();
  state_.history.Record(loop_.Now(), event.substr(0, event.find(' ')),
                        fmt::format("{} version={} moved={}", event.substr(event.find(' ') + 1),
                                    outcome.version, outcome.moves.size()));
  Turn();  // now, not when the loop comes to it: flows on a dead path wait for this
  return outcome;
}

Result<ActionOutcome> Controller::ChangeLink(const std::string& link, LinkAction action,
                                             const std::string& reason, bool dry_run) {
  const auto id = state_.topology.FindLink(link);
  if (!id) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no link \"{}\" (`espalier links` lists them)", link));
  }
  const ActionWords words = WordsFor(action);
  Intents changed = state_.intents;
  const bool drains = action == LinkAction::kDrain || action == LinkAction::kUndrain;
  auto& intents = drains ? changed.drained_links : changed.failed_links;
  const LinkState meant = drains ? LinkState::kDrained : LinkState::kDown;
  const bool in_file = initial_states_[id->Index()] == meant;
  const bool is_news = in_file ? Change(changed.restored_links, link, !words.add, reason)
                               : Change(intents, link, words.add, reason);
  if (!is_news) {
    return Fail(ErrorCode::kAlreadyExists, fmt::format("link {} {}", link, words.already));
  }
  return ApplyIntentChange(std::move(changed), fmt::format("{} link={}", words.event, link),
                           dry_run);
}

Result<ActionOutcome> Controller::ChangeNode(const std::string& node, NodeAction action,
                                             const std::string& reason, bool dry_run) {
  if (!state_.topology.FindNode(node)) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no node \"{}\"", node));
  }
  Intents changed = state_.intents;
  const bool fail = action == NodeAction::kFail;
  if (!Change(changed.failed_nodes, node, fail, reason)) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("node {} {}", node, fail ? "is failed already" : "is not failed"));
  }
  return ApplyIntentChange(std::move(changed),
                           fmt::format("{} node={}", fail ? "node_failed" : "node_restored", node),
                           dry_run);
}

ActionOutcome Controller::Recompute(bool dry_run) {
  ActionOutcome outcome;
  outcome.version = state_.topology.version();
  outcome.moves = placement_.Recompute(dry_run);
  if (dry_run) return outcome;
  state_.history.Record(loop_.Now(), "recomputed", fmt::format("moved={}", outcome.moves.size()));
  Turn();
  return outcome;
}

}  // namespace espalier::controller
