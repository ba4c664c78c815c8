#include "controller/state/fabric_health.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "common/base/enum_names.h"
#include "controller/intents/steering.h"

namespace espalier::controller {

std::string_view HealthName(FabricHealth::Word word) {
  using Word = FabricHealth::Word;
  static constexpr EnumNames<Word> kNames(
      {{Word::kOk, "ok"}, {Word::kDegraded, "degraded"}, {Word::kFailing, "failing"}});
  return kNames.NameOf(word);
}

FabricHealth::Word FabricHealth::word() const {
  if (reach.CutOff() > 0) return Word::kFailing;
  return Reasons().empty() ? Word::kOk : Word::kDegraded;
}

std::vector<std::string> FabricHealth::Reasons() const {
  std::vector<std::string> reasons;
  const auto add = [&](std::int64_t count, std::string_view one, std::string_view several) {
    if (count > 0) reasons.push_back(fmt::format("{} {}", count, count == 1 ? one : several));
  };
  add(reach.without_path, "flow has no usable path", "flows have no usable path");
  add(reach.on_dead_link, "flow is on a link that is down", "flows are on links that are down");
  add(links_awaiting_operator,
      "link is found dead or lossy and stays in use until an operator fails or drains it",
      "links are found dead or lossy and stay in use until an operator fails or drains them");
  add(reach.on_drained_link, "flow is on a drained link", "flows are on drained links");
  add(links_down, "link is down", "links are down");
  reasons.insert(reasons.end(), dead_switches.begin(), dead_switches.end());
  add(links_lossy, "link loses packets", "links lose packets");
  reasons.insert(reasons.end(), doubts.begin(), doubts.end());
  if (flows_late > 0) {
    reasons.push_back(fmt::format(
        "{} {} for a source port for more than 5 s (`espalier explain '{}'` says why)", flows_late,
        flows_late == 1 ? "flow has waited" : "flows have waited", late_flow));
  }
  if (!spraying.empty()) reasons.push_back(spraying);
  if (!poor_spread.empty()) reasons.push_back(poor_spread);
  add(silent_feeds, "feed of link loads is silent, so that background traffic is unknown",
      "feeds of link loads are silent, so that background traffic is unknown");
  add(windows_held, "maintenance window waits, as it would cut off flows",
      "maintenance windows wait, as they would cut off flows");
  if (!steering.empty()) reasons.push_back(steering);
  if (hosts_without_agent > 0) {
    reasons.push_back(fmt::format("{} of {} hosts {} no agent", hosts_without_agent, hosts,
                                  hosts_without_agent == 1 ? "has" : "have"));
  }
  add(reach.unknown_end, "flow has an end that the topology does not have",
      "flows have ends that the topology does not have");
  return reasons;
}

namespace {

std::string DescribeSpraying(const State& state) {
  if (state.notices.sprayed_hosts.empty()) return "";
  std::set<std::string> switches;
  std::set<std::string> hosts;
  for (const auto& [sender, at] : state.notices.sprayed_hosts) {
    switches.insert(state.topology.node(at).id);
    hosts.insert(sender.second);
  }
  return fmt::format(
      "{} {} packets over several paths, not by their source port, so that flows from {} are not "
      "steered",
      fmt::join(switches, ", "), switches.size() == 1 ? "sprays" : "spray", fmt::join(hosts, ", "));
}

// Switches most of whose links are down, by detection and not by an operator.
std::vector<std::string> DescribeDeadSwitches(const State& state) {
  std::vector<std::string> words;
  const auto& nodes = state.topology.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const fabric::NodeId node(static_cast<std::int32_t>(i));
    const bool is_out = state.intents.failed_nodes.contains(nodes[i].id);
    if (nodes[i].kind != fabric::NodeKind::kSwitch || is_out) continue;
    std::size_t links = 0;
    std::size_t down = 0;
    for (const fabric::DirectedLink direction : state.topology.Outgoing(node)) {
      const fabric::Link& link = state.topology.link(direction.link);
      ++links;
      const bool is_down = link.state == fabric::LinkState::kDown;
      down += is_down && !state.intents.failed_links.contains(link.id) ? 1 : 0;
    }
    if (down < 2 || 4 * down < 3 * links) continue;
    words.push_back(fmt::format(
        "{} looks dead: {} of its {} links are down (`espalier fail node {}` takes it out)",
        nodes[i].id, down, links, nodes[i].id));
  }
  return words;
}

}  // namespace

FabricHealth HealthOf(const State& state, const ReachCounts& reach,
                      std::size_t links_awaiting_operator, std::vector<std::string> doubts) {
  FabricHealth health{.reach = reach,
                      .links_down = std::ranges::count(
                          state.topology.links(), fabric::LinkState::kDown, &fabric::Link::state),
                      .links_lossy = std::ranges::count_if(
                          state.link_faults,
                          [](const auto& of) { return of.second.kind == LinkFault::Kind::kLossy; }),
                      .links_awaiting_operator = static_cast<std::int64_t>(links_awaiting_operator),
                      .silent_feeds = static_cast<std::int64_t>(state.silent_feeds.size()),
                      .windows_held = static_cast<std::int64_t>(state.held_windows.size()),
                      .doubts = std::move(doubts),
                      .steering = state.Steering().Describe()};
  if (!health.steering.empty() || !state.notices.sprayed_hosts.empty()) {
    const std::vector<FlowSlot> slots = state.flows.All();
    health.flows_unsteered = std::ranges::count_if(slots, [&](FlowSlot slot) {
      return state.flows.At(slot).status == FlowStatus::kUnsteered;
    });
  }
  health.flows_late = static_cast<std::int64_t>(state.notices.late_flows);
  health.late_flow = state.notices.late_flow;
  health.dead_switches = DescribeDeadSwitches(state);
  health.spraying = DescribeSpraying(state);
  for (const auto& [sender, at] : state.notices.sprayed_hosts)
    health.sprayed_hosts.insert(sender.second);
  if (state.notices.poor_spread) {
    health.poor_spread = fmt::format(
        "the most loaded link carries {} flows, where {} are possible (`espalier recompute` "
        "reaches it)",
        state.notices.poor_spread->load.ToString(), state.notices.poor_spread->possible.ToString());
  }
  std::set<std::string_view> hosts;
  const auto& nodes = state.topology.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!state.paths.FindAttachment(fabric::NodeId(static_cast<std::int32_t>(i)))) continue;
    const std::string& host = fabric::HostOf(nodes[i]);
    if (!hosts.insert(host).second) continue;
    const auto agent = state.agents.FindByName(host);
    const bool is_connected = agent && state.agents.At(*agent).peer.has_value();
    health.hosts_without_agent += is_connected ? 0 : 1;
  }
  health.hosts = static_cast<std::int64_t>(hosts.size());
  return health;
}

}  // namespace espalier::controller
