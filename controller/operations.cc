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
  if (!changed.empty()) {
    state_.view.Refresh();
    state_.live.HandleLinkChange();
  }
  return changed;
}

std::vector<FlowMove> Controller::ReactToLinkChanges(const std::vector<LinkId>& changed) {
  if (changed.empty()) return {};
  for (const LinkId link : changed) learner_.HandleLinkChange(link);
  std::vector<FlowMove> moves = placement_.HandleLinkChange();
  placement_.RetryUnroutable();
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (flow.status != FlowStatus::kRouted) continue;
    for (const FlowWay& way : flow.ways) {
      const auto entry = state_.path_map.Find(flow.key, way.port);
      if (entry && entry->trust == fabric::PortTrust::kReverify) {
        learner_.Verify(flow.key, way.port);
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
    const bool breaks = std::ranges::any_of(flow.ways, [&](const FlowWay& way) {
      const auto path = state_.PathOf(way);
      return path && std::ranges::any_of(state_.PathsOf(flow)[path->Index()].hops, [&](auto hop) {
               return EffectiveState(hop.link, intents) != LinkState::kUp;
             });
    });
    if (!breaks) continue;
    moves.push_back({state_.FlowName(flow), state_.flows.JobName(flow.job), state_.Via(flow), ""});
  }
  return moves;
}

Result<ActionOutcome> Controller::ApplyIntentChange(Intents changed, const std::string& event,
                                                    bool dry_run) {
  ActionOutcome outcome;
  if (dry_run) {
    outcome.version = state_.topology.version();
    outcome.moves = WouldMove(changed);
    outcome.before = outcome.after = Summarize(state_);
    return outcome;
  }
  Result<void> saved = store_.Save(changed);
  if (!saved) return Propagate(saved);
  state_.intents = std::move(changed);
  outcome.before = Summarize(state_);
  outcome.moves = ReactToLinkChanges(ApplyIntents());
  outcome.after = Summarize(state_);
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
  Placement::Recomputation recomputed = placement_.Recompute(dry_run);
  outcome.moves = std::move(recomputed.moves);
  outcome.before = recomputed.before;
  outcome.after = recomputed.after;
  if (dry_run) return outcome;
  recomputations_.Add();
  state_.history.Record(
      loop_.Now(), "recomputed",
      fmt::format("moved={} max_load={} bound={}", outcome.moves.size(),
                  outcome.after.max_load.ToString(), outcome.after.lower_bound.ToString()));
  Turn();
  return outcome;
}

}  // namespace espalier::controller
