#include "controller/operations/topology_effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "common/fabric/paths.h"
#include "controller/intents/intent_changes.h"
#include "controller/intents/steering.h"

namespace espalier::controller {
namespace {

using fabric::LinkId;
using fabric::NodeId;
using fabric::Topology;

constexpr std::size_t kMostNamed = 8;

// Follows flows into the other topology.
class Follower {
 public:
  Follower(const State& state, const Topology& after)
      : state_(state), after_(after), paths_(after_) {
    for (const fabric::Link& link : state.topology.links()) {
      const auto same = after_.FindLink(link.id);
      const bool is_same =
          same && fabric::JoinsSameNodes(state.topology, link, after_, after_.link(*same));
      remains_.push_back(is_same);
      if (is_same) after_.SetLinkState(*same, link.state);
    }
  }

  bool Remains(LinkId link) const { return remains_[link.Index()]; }

  enum class Fate { kKept, kMoved, kLost, kHostLost };
  Fate FateOf(const Flow& flow) {
    const auto source = after_.FindNic(flow.source_address);
    const auto destination = after_.FindNic(flow.destination_address);
    if (!source || !destination) return Fate::kHostLost;
    const auto from = paths_.FindAttachment(*source);
    const auto to = paths_.FindAttachment(*destination);
    if (!from || !to) return Fate::kHostLost;
    const auto is_leaf = [&](NodeId before, NodeId now) {
      return state_.topology.node(before).id == after_.node(now).id;
    };
    const bool has_same_ends =
        is_leaf(flow.source_leaf, from->leaf) && is_leaf(flow.destination_leaf, to->leaf);
    if (has_same_ends && KeepsPaths(flow)) return Fate::kKept;
    if (from->leaf == to->leaf) return Fate::kMoved;
    const auto candidates = paths_.Between(from->leaf, to->leaf);
    const bool has_path = std::ranges::any_of(
        candidates, [&](const fabric::Path& path) { return fabric::IsUsable(after_, path); });
    return has_path ? Fate::kMoved : Fate::kLost;
  }

 private:
  bool KeepsPaths(const Flow& flow) const {
    return std::ranges::all_of(flow.subflows, [&](const Subflow& subflow) {
      const auto path = state_.flow_paths.PathOf(subflow);
      return !path || std::ranges::all_of(state_.PathsOf(flow)[path->Index()].hops,
                                          [&](auto hop) { return Remains(hop.link); });
    });
  }

  const State& state_;
  Topology after_;  // with the present states of the links that remain
  fabric::PathTable paths_;
  std::vector<bool> remains_;  // by present link
};

void FollowFlows(const State& state, Follower& follower, TopologyEffects& effects) {
  std::map<std::string, std::int64_t> hosts;
  std::set<LinkId> seen;
  for (const FlowSlot slot : state.flows.All()) {
    const Flow& flow = state.flows.At(slot);
    const bool is_known = flow.status != FlowStatus::kUnroutable || !flow.subflows.empty();
    if (!is_known) continue;  // an end is unknown already
    switch (follower.FateOf(flow)) {
      case Follower::Fate::kKept:
        ++effects.flows_kept;
        break;
      case Follower::Fate::kMoved:
        ++effects.flows_moved;
        break;
      case Follower::Fate::kLost:
        ++effects.flows_lost;
        break;
      case Follower::Fate::kHostLost:
        ++effects.flows_lost;
        ++hosts[state.agents.At(flow.agent).name];
        break;
    }
    for (const Subflow& subflow : flow.subflows) {
      if (subflow.port == 0) continue;
      const auto entry = state.path_map.Find(flow.key, subflow.port);
      if (!entry || entry->trust != fabric::PortTrust::kVerified) continue;
      for (const auto hop : state.PathsOf(flow)[entry->path.Index()].hops) seen.insert(hop.link);
    }
  }
  for (const auto& [host, flows] : hosts) {
    effects.hosts_lost.push_back(
        fmt::format("{} ({} {})", host, flows, flows == 1 ? "flow" : "flows"));
  }
  for (const LinkId link : seen) {
    if (!follower.Remains(link)) effects.contradictions.push_back(state.topology.link(link).id);
  }
}

// Removes the intents that the topology has no object for.
void DropIntents(const Topology& after, TopologyEffects& effects) {
  std::set<std::string_view> hosts;
  for (const fabric::Node& node : after.nodes()) hosts.insert(fabric::HostOf(node));
  const auto drop = [&](IntentById& intents,
                        const std::function<bool(const std::string&, const Intent&)>& remains) {
    std::string_view name;
    for (const IntentKind& kind : IntentKinds()) {
      if (&(effects.intents.*kind.intents) == &intents) name = kind.name;
    }
    std::erase_if(intents, [&](const auto& member) {
      if (remains(member.first, member.second)) return false;
      effects.dropped.push_back(fmt::format("{} {}", name, member.first));
      return true;
    });
  };
  const auto has_link = [&](const std::string& id, const Intent&) {
    return after.FindLink(id).has_value();
  };
  const auto has_node = [&](const std::string& id, const Intent&) {
    return after.FindNode(id).has_value();
  };
  drop(effects.intents.failed_links, has_link);
  drop(effects.intents.drained_links, has_link);
  drop(effects.intents.restored_links, has_link);
  drop(effects.intents.failed_nodes, has_node);
  drop(effects.intents.drained_nodes, has_node);
  drop(effects.intents.jobs, [&](const std::string&, const Intent& intent) {
    const auto* const job = std::get_if<StartedJob>(&intent.value);
    return job == nullptr || std::ranges::all_of(job->spec.ranks, [&](const std::string& rank) {
             return after.FindNode(rank).has_value();
           });
  });
  drop(effects.intents.steering, [&](const std::string& key, const Intent&) {
    const std::string prefix = SteeringKeyOfHost("");
    return !key.starts_with(prefix) || hosts.contains(std::string_view(key).substr(prefix.size()));
  });
  drop(effects.intents.maintenance, [&](const std::string&, const Intent& intent) {
    const auto* const window = std::get_if<MaintenanceWindow>(&intent.value);
    if (window == nullptr) return true;
    return window->kind == "link" ? after.FindLink(window->id).has_value()
                                  : after.FindNode(window->id).has_value();
  });
}

// "a, b, c and 5 more".
std::string Listed(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kMostNamed);
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

TopologyEffects ComputeEffects(const State& state, const Topology& after) {
  TopologyEffects effects;
  effects.changes = fabric::DiffTopologies(state.topology, after, /*with_states=*/false);
  effects.intents = state.intents;
  DropIntents(after, effects);
  Follower follower(state, after);
  FollowFlows(state, follower, effects);
  return effects;
}

Result<void> CheckEffects(const TopologyEffects& effects, bool force) {
  if (effects.changes.empty()) {
    return Fail(ErrorCode::kAlreadyExists, "this is the topology in force");
  }
  if (!effects.contradictions.empty()) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("probes see flows on links that the file does not have, or has "
                            "elsewhere: {} (correct the file, or drain or fail these links first)",
                            Listed(effects.contradictions)));
  }
  if (force) return {};
  if (!effects.hosts_lost.empty()) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("hosts with open flows would vanish: {} (end their jobs first, or give "
                            "--force)",
                            Listed(effects.hosts_lost)));
  }
  if (effects.flows_lost > 0) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{} {} would lose every path (give --force to do it all the same)",
                            effects.flows_lost, effects.flows_lost == 1 ? "flow" : "flows"));
  }
  return {};
}

}  // namespace espalier::controller
