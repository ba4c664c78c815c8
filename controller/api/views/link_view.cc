#include "controller/api/views/link_view.h"

#include <algorithm>

#include "controller/api/views/flow_view.h"
#include "controller/intents/maintenance.h"

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::LinkId;
using fabric::LinkState;
using fabric::NodeId;
using io::JsonWriter;

namespace {

std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// Writes what the topology says of a node.
void WriteBuiltNode(JsonWriter& json, const fabric::Node& node) {
  json.Key("id").String(node.id);
  json.Key("kind").String(NodeKindName(node.kind));
  json.Key("role").String(node.role == fabric::SwitchRole::kNone ? "" : SwitchRoleName(node.role));
  json.Key("host").String(node.host);
}

// Whether the link is DRAINED only because it loses packets.
bool IsShownLossy(const State& state, LinkId id) {
  const fabric::Link& link = state.topology.link(id);
  return link.state == fabric::LinkState::kDrained && state.link_faults.contains(id) &&
         !state.intents.drained_links.contains(link.id);
}

// Why tests have taken the link out of use.
void WriteWhy(JsonWriter& json, const State& state, LinkId id) {
  const auto found = state.link_faults.find(id);
  if (found == state.link_faults.end()) return;
  const LinkFault& fault = found->second;
  json.Key("why").BeginObject();
  json.Key("test").BeginObject();
  json.Key("lost").Integer(fault.test.lost);
  json.Key("sent").Integer(fault.test.sent);
  json.Key("siblings_lost").Integer(fault.siblings.lost);
  json.Key("siblings_sent").Integer(fault.siblings.sent);
  json.Key("direction").String(ArrowOf(state.topology, fault.direction));
  json.Key("traffic").String(fault.traffic);
  json.Key("senders").Integer(static_cast<std::int64_t>(fault.senders));
  json.Key("receivers").Integer(static_cast<std::int64_t>(fault.receivers));
  json.EndObject();
  json.Key("suspected_by").BeginArray();
  for (const std::string& name : fault.suspected_by) json.String(name);
  json.EndArray();
  json.Key("alternatives").BeginArray();
  for (const fabric::DirectedLink other : fault.alternatives) {
    json.String(ArrowOf(state.topology, other));
  }
  json.EndArray();
  json.Key("words").String(DescribeFault(state.topology, fault));
  json.EndObject();
}

// The maintenance windows of a link and its nodes: "maintenance m1"; "" for none.
std::string MaintenanceReason(const State& state, const fabric::Link& link) {
  std::string windows;
  const auto add = [&](std::string_view kind, const std::string& id) {
    if (!IsInMaintenance(state.intents.maintenance, kind, id)) return;
    windows +=
        (windows.empty() ? "maintenance " : ", ") + WindowsOf(state.intents.maintenance, kind, id);
  };
  add("link", link.id);
  add("node", state.topology.node(link.a).id);
  add("node", state.topology.node(link.b).id);
  return windows;
}

}  // namespace

std::string LoadText(const State& state, std::span<const std::int64_t> loads, DirectedLink link) {
  const std::int64_t capacity = state.view.capacities()[link.Index()];
  if (capacity == 0) return "0";
  return MakeLoad(state.view, loads[link.Index()], capacity).ToString();
}

ShownLinkState ShownState(const State& state, LinkId id) {
  if (IsShownLossy(state, id)) return ShownLinkState::kLossy;
  switch (state.topology.link(id).state) {
    case LinkState::kUp:
      return ShownLinkState::kUp;
    case LinkState::kDrained:
      return ShownLinkState::kDrained;
    case LinkState::kDown:
      break;
  }
  return ShownLinkState::kDown;
}

std::string NodeView(const State& state, NodeId id) {
  const fabric::Node& node = state.topology.node(id);
  JsonWriter json;
  json.BeginObject();
  WriteBuiltNode(json, node);
  json.Key("tier").Integer(node.kind == fabric::NodeKind::kSwitch ? state.paths.Tier(id) : -1);
  json.Key("addresses").BeginArray();
  for (const IpAddress& address : node.addresses) json.String(address.ToString());
  json.EndArray().EndObject();
  return json.Text();
}

std::string NodeStateView(const State& state, NodeId id) {
  const fabric::Node& node = state.topology.node(id);
  std::int64_t links = 0;
  std::int64_t up = 0;
  bool is_down = true;  // every link is
  for (const DirectedLink direction : state.topology.Outgoing(id)) {
    const LinkState link = state.topology.link(direction.link).state;
    ++links;
    up += link == LinkState::kUp ? 1 : 0;
    is_down &= link == LinkState::kDown;
  }
  const auto failed = state.intents.failed_nodes.find(node.id);
  const auto drained = state.intents.drained_nodes.find(node.id);
  const bool is_failed = failed != state.intents.failed_nodes.end();
  const bool is_drained = drained != state.intents.drained_nodes.end();
  const bool is_off = links > 0 && up == 0;
  const LinkState shown = is_failed || (is_off && is_down) ? LinkState::kDown
                          : is_drained || is_off           ? LinkState::kDrained
                                                           : LinkState::kUp;
  const auto agent = state.agents.FindByName(fabric::HostOf(node));
  const bool is_connected = agent && state.agents.At(*agent).peer.has_value();
  const bool needs_agent = state.paths.FindAttachment(id).has_value();
  JsonWriter json;
  json.BeginObject();
  WriteBuiltNode(json, node);
  json.Key("state").String(LinkStateName(shown));
  json.Key("links").Integer(links);
  json.Key("links_up").Integer(up);
  json.Key("agent").String(!needs_agent ? "" : is_connected ? "connected" : "missing");
  json.Key("reason").String(is_failed    ? failed->second.reason
                            : is_drained ? drained->second.reason
                                         : "");
  json.EndObject();
  return json.Text();
}

std::string BuiltLinkView(const State& state, LinkId id) {
  const fabric::Link& link = state.topology.link(id);
  JsonWriter json;
  json.BeginObject();
  json.Key("id").String(link.id);
  json.Key("a").String(state.topology.node(link.a).id);
  json.Key("b").String(state.topology.node(link.b).id);
  json.Key("bps").Integer(link.rate.value);
  json.Key("directed").Bool(link.directed);
  json.EndObject();
  return json.Text();
}

void WriteLink(JsonWriter& json, const Controller& controller, LinkId id,
               const LinkTraffic& traffic) {
  const State& state = controller.state();
  const fabric::Link& link = state.topology.link(id);
  const DirectedLink ab{id, true};
  const DirectedLink ba{id, false};
  // The operators' reasons: those for the link, else those for its nodes.
  const auto reason_for = [&](const IntentById& intents, const std::string& name) {
    const auto found = intents.find(name);
    return found == intents.end() ? std::string() : found->second.reason;
  };
  const auto reason = [&](const IntentById& links, const IntentById& nodes) {
    std::string text = reason_for(links, link.id);
    for (const NodeId node : {link.a, link.b}) {
      if (text.empty()) text = reason_for(nodes, state.topology.node(node).id);
    }
    return text;
  };
  json.BeginObject();
  json.Key("id").String(link.id);
  json.Key("a").String(state.topology.node(link.a).id);
  json.Key("b").String(state.topology.node(link.b).id);
  json.Key("gbps").String(FormatGbps(link.rate));
  const bool is_lossy = IsShownLossy(state, id);
  json.Key("state").String(is_lossy ? "LOSSY" : LinkStateName(link.state));
  json.Key("failed_by_operator").Bool(state.intents.failed_links.contains(link.id));
  std::string why = reason(state.intents.failed_links, state.intents.failed_nodes) +
                    reason(state.intents.drained_links, state.intents.drained_nodes) +
                    MaintenanceReason(state, link);
  if (why.empty() && link.state != LinkState::kUp) why = controller.links().health.WhyDown(id);
  json.Key("reason").String(why);
  WriteWhy(json, state, id);
  json.Key("flows_a_to_b").Integer(traffic.paths[ab.Index()]);
  json.Key("flows_b_to_a").Integer(traffic.paths[ba.Index()]);
  json.Key("load_a_to_b").String(LoadText(state, traffic.loads, ab));
  json.Key("load_b_to_a").String(LoadText(state, traffic.loads, ba));
  json.Key("bps_a_to_b").Integer(Signed(traffic.achieved_bps[ab.Index()]));
  json.Key("bps_b_to_a").Integer(Signed(traffic.achieved_bps[ba.Index()]));
  WriteBackground(json, "background_a_to_b", controller, ab);
  WriteBackground(json, "background_b_to_a", controller, ba);
  json.EndObject();
}

std::uint64_t LinkDigest(const State& state, LinkId id, const LinkTraffic& traffic) {
  std::uint64_t digest = 1;
  Mix(digest, state.revision << 2 | static_cast<std::uint64_t>(state.topology.link(id).state));
  Mix(digest, IsShownLossy(state, id) ? 1 : 0);
  for (const bool forward : {true, false}) {
    const std::size_t index = DirectedLink{id, forward}.Index();
    Mix(digest, static_cast<std::uint64_t>(traffic.paths[index]));
    Mix(digest, static_cast<std::uint64_t>(traffic.loads[index]));
    Mix(digest, CoarseRate(traffic.achieved_bps[index]));
  }
  return digest;
}

void WriteBackground(io::JsonWriter& json, std::string_view key, const Controller& controller,
                     fabric::DirectedLink link) {
  const auto background = controller.links().background.Find(link);
  if (!background) return;
  json.Key(key).BeginObject();
  json.Key("bps").Integer(background->bps);
  json.Key("reported_bps").Integer(background->reported_bps);
  json.Key("source").String(background->source);
  json.Key("age_seconds").Double(SecondsOf(controller.Now() - background->measured));
  json.EndObject();
}

}  // namespace espalier::controller
