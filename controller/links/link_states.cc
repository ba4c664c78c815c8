#include "controller/links/link_states.h"

#include <optional>

#include "controller/intents/maintenance.h"

namespace espalier::controller {

using fabric::LinkId;
using fabric::LinkState;

namespace {

std::vector<LinkState> StatesOf(const fabric::Topology& topology) {
  std::vector<LinkState> states;
  for (const fabric::Link& link : topology.links()) states.push_back(link.state);
  return states;
}

}  // namespace

LinkStates::LinkStates(State& state, const LinkHealth& health)
    : state_(state), health_(health), in_file_(StatesOf(state.topology)) {}

LinkState LinkStates::StateUnder(const Intents& intents, LinkId id) const {
  const fabric::Link& link = state_.topology.link(id);
  const auto has_end = [&](const IntentById& nodes) {
    return nodes.contains(state_.topology.node(link.a).id) ||
           nodes.contains(state_.topology.node(link.b).id);
  };
  const LinkState in_file =
      intents.restored_links.contains(link.id) ? LinkState::kUp : in_file_[id.Index()];
  if (intents.failed_links.contains(link.id) || has_end(intents.failed_nodes) ||
      health_.IsDown(id) || in_file == LinkState::kDown) {
    return LinkState::kDown;
  }
  const auto in_maintenance = [&](std::string_view kind, std::string_view object) {
    return IsInMaintenance(intents.maintenance, kind, object);
  };
  const bool is_maintained =
      !intents.maintenance.empty() &&
      (in_maintenance("link", link.id) || in_maintenance("node", state_.topology.node(link.a).id) ||
       in_maintenance("node", state_.topology.node(link.b).id));
  const bool drained = is_maintained || intents.drained_links.contains(link.id) ||
                       has_end(intents.drained_nodes) || state_.link_faults.contains(id);
  return drained ? LinkState::kDrained : in_file;
}

std::optional<fabric::Topology> LinkStates::TopologyUnder(const Intents& intents) const {
  fabric::Topology trial = state_.topology;
  bool has_changed = false;
  for (std::size_t i = 0; i < trial.links().size(); ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    has_changed |= trial.SetLinkState(id, StateUnder(intents, id));
  }
  return has_changed ? std::optional(std::move(trial)) : std::nullopt;
}

std::vector<LinkId> LinkStates::Apply() {
  std::vector<LinkId> changed;
  lost_or_returned_.clear();
  for (std::size_t i = 0; i < state_.topology.links().size(); ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    const LinkState before = state_.topology.link(id).state;
    const LinkState after = StateUnder(state_.intents, id);
    if (!state_.topology.SetLinkState(id, after)) continue;
    changed.push_back(id);
    if (before == LinkState::kDown || after == LinkState::kDown) lost_or_returned_.push_back(id);
  }
  affected_.clear();
  if (!changed.empty()) {
    state_.view.Refresh();
    const auto affected = state_.flow_paths.HandleLinkChange();
    affected_.assign(affected.begin(), affected.end());
  }
  return changed;
}

}  // namespace espalier::controller
