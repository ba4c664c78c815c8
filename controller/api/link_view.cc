#include "controller/api/link_view.h"

#include "controller/api/flow_view.h"
#include "controller/api/link_loads.h"

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::LinkId;
using fabric::NodeId;
using io::JsonWriter;

namespace {

std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// The load as a rational number, such as "3/2" if flows are split or link rates differ.
std::string LoadOf(const State& state, DirectedLink link) {
  const std::int64_t capacity = state.view.capacities()[link.Index()];
  if (capacity == 0) return "0";
  return MakeLoad(state.view, state.flow_paths.assigner().LoadOf(link.Index()), capacity)
      .ToString();
}

// Whether the link is DRAINED only because it is slow.
bool IsShownSlow(const State& state, LinkId id) {
  const fabric::Link& link = state.topology.link(id);
  return link.state == fabric::LinkState::kDrained && state.slow_links.contains(id) &&
         !state.intents.drained_links.contains(link.id);
}

}  // namespace

std::string NodeView(const State& state, NodeId id) {
  const fabric::Node& node = state.topology.node(id);
  JsonWriter json;
  json.BeginObject();
  json.Key("id").String(node.id);
  json.Key("kind").String(NodeKindName(node.kind));
  json.Key("role").String(node.role == fabric::SwitchRole::kNone ? "" : SwitchRoleName(node.role));
  json.Key("host").String(node.host);
  json.Key("tier").Integer(node.kind == fabric::NodeKind::kSwitch ? state.paths.Tier(id) : -1);
  json.Key("addresses").BeginArray();
  for (const IpAddress& address : node.addresses) json.String(address.ToString());
  json.EndArray().EndObject();
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
  const auto reason = [&](const IntentById& intents) {
    const auto found = intents.find(link.id);
    return found == intents.end() ? std::string() : found->second.reason;
  };
  json.BeginObject();
  json.Key("id").String(link.id);
  json.Key("a").String(state.topology.node(link.a).id);
  json.Key("b").String(state.topology.node(link.b).id);
  json.Key("gbps").String(FormatGbps(link.rate));
  const bool is_slow = IsShownSlow(state, id);
  json.Key("state").String(is_slow ? "SLOW" : LinkStateName(link.state));
  json.Key("failed_by_operator").Bool(state.intents.failed_links.contains(link.id));
  json.Key("reason").String(reason(state.intents.failed_links) +
                            reason(state.intents.drained_links) +
                            (is_slow ? state.slow_links.at(id) : std::string()));
  json.Key("flows_a_to_b").Integer(traffic.paths[ab.Index()]);
  json.Key("flows_b_to_a").Integer(traffic.paths[ba.Index()]);
  json.Key("load_a_to_b").String(LoadOf(state, ab));
  json.Key("load_b_to_a").String(LoadOf(state, ba));
  json.Key("bps_a_to_b").Integer(Signed(traffic.achieved_bps[ab.Index()]));
  json.Key("bps_b_to_a").Integer(Signed(traffic.achieved_bps[ba.Index()]));
  WriteBackground(json, "background_a_to_b", controller, ab);
  WriteBackground(json, "background_b_to_a", controller, ba);
  json.EndObject();
}

std::uint64_t LinkDigest(const State& state, LinkId id, const LinkTraffic& traffic) {
  std::uint64_t digest = 1;
  Mix(digest, state.revision << 2 | static_cast<std::uint64_t>(state.topology.link(id).state));
  Mix(digest, IsShownSlow(state, id) ? 1 : 0);
  for (const bool forward : {true, false}) {
    const std::size_t index = DirectedLink{id, forward}.Index();
    Mix(digest, static_cast<std::uint64_t>(traffic.paths[index]));
    Mix(digest, static_cast<std::uint64_t>(state.flow_paths.assigner().LoadOf(index)));
    Mix(digest, CoarseRate(traffic.achieved_bps[index]));
  }
  return digest;
}

}  // namespace espalier::controller
