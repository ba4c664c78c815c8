#include "controller/api/link_view.h"

#include <array>
#include <set>

#include "controller/api/flow_view.h"

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::LinkId;
using fabric::NodeId;
using io::JsonWriter;

namespace {

constexpr std::size_t kMostPairs = 1'000;

std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// Flows a unit link: "3/2" where flows are split or links differ.
std::string LoadOf(const State& state, DirectedLink link) {
  const std::int64_t capacity = state.view.capacities()[link.Index()];
  if (capacity == 0) return "0";
  return MakeLoad(state.view, state.live.LoadOf(link.Index()), capacity).ToString();
}

void WriteNode(JsonWriter& json, const State& state, NodeId id) {
  const fabric::Node& node = state.topology.node(id);
  json.BeginObject();
  json.Key("id").String(node.id);
  json.Key("kind").String(NodeKindName(node.kind));
  json.Key("role").String(node.role == fabric::SwitchRole::kNone ? "" : SwitchRoleName(node.role));
  json.Key("host").String(node.host);
  json.Key("tier").Integer(node.kind == fabric::NodeKind::kSwitch ? state.paths.Tier(id) : -1);
  json.Key("addresses").BeginArray();
  for (const IpAddress& address : node.addresses) json.String(address.ToString());
  json.EndArray().EndObject();
}

struct Trusts {
  std::array<std::int64_t, 3> ports{};  // by PortTrust
  std::set<fabric::PathIndex> paths;

  void Add(const fabric::PortEntry& entry) {
    ++ports[static_cast<std::size_t>(entry.trust)];
    paths.insert(entry.path);
  }
  void Write(JsonWriter& json) const {
    json.Key("verified").Integer(ports[static_cast<std::size_t>(fabric::PortTrust::kVerified)]);
    json.Key("predicted").Integer(ports[static_cast<std::size_t>(fabric::PortTrust::kPredicted)]);
    json.Key("reverify").Integer(ports[static_cast<std::size_t>(fabric::PortTrust::kReverify)]);
  }
};

void WritePair(JsonWriter& json, State& state, const fabric::PortKey& key, const Trusts& trusts) {
  const auto from = state.paths.FindAttachment(key.source);
  const auto to = state.paths.FindAttachment(key.destination);
  const std::size_t paths = from && to ? state.paths.Between(from->leaf, to->leaf).size() : 0;
  json.BeginObject();
  json.Key("source").String(state.topology.node(key.source).id);
  json.Key("destination").String(state.topology.node(key.destination).id);
  json.Key("protocol").Integer(key.protocol);
  json.Key("destination_port").Integer(key.destination_port);
  trusts.Write(json);
  json.Key("paths_known").Integer(static_cast<std::int64_t>(trusts.paths.size()));
  json.Key("paths").Integer(static_cast<std::int64_t>(paths));
  json.EndObject();
}

}  // namespace

std::string TopologyView(const State& state) {
  JsonWriter json;
  json.BeginObject();
  json.Key("name").String(state.topology.name());
  json.Key("nodes").BeginArray();
  for (std::size_t i = 0; i < state.topology.nodes().size(); ++i) {
    WriteNode(json, state, NodeId(static_cast<std::int32_t>(i)));
  }
  json.EndArray().Key("links").BeginArray();
  for (const fabric::Link& link : state.topology.links()) {
    json.BeginObject();
    json.Key("id").String(link.id);
    json.Key("a").String(state.topology.node(link.a).id);
    json.Key("b").String(state.topology.node(link.b).id);
    json.Key("bps").Integer(link.rate.value);
    json.Key("directed").Bool(link.directed);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

void WriteLink(JsonWriter& json, const State& state, LinkId id, const LinkTraffic& traffic) {
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
  json.Key("state").String(LinkStateName(link.state));
  json.Key("failed_by_operator").Bool(state.intents.failed_links.contains(link.id));
  json.Key("reason").String(reason(state.intents.failed_links) +
                            reason(state.intents.drained_links));
  json.Key("flows_a_to_b").Integer(traffic.paths[ab.Index()]);
  json.Key("flows_b_to_a").Integer(traffic.paths[ba.Index()]);
  json.Key("load_a_to_b").String(LoadOf(state, ab));
  json.Key("load_b_to_a").String(LoadOf(state, ba));
  json.Key("bps_a_to_b").Integer(Signed(traffic.achieved_bps[ab.Index()]));
  json.Key("bps_b_to_a").Integer(Signed(traffic.achieved_bps[ba.Index()]));
  json.EndObject();
}

std::uint64_t LinkDigest(const State& state, LinkId id, const LinkTraffic& traffic) {
  std::uint64_t digest = 1;
  Mix(digest, state.revision << 2 | static_cast<std::uint64_t>(state.topology.link(id).state));
  for (const bool forward : {true, false}) {
    const std::size_t index = DirectedLink{id, forward}.Index();
    Mix(digest, static_cast<std::uint64_t>(traffic.paths[index]));
    Mix(digest, static_cast<std::uint64_t>(state.live.LoadOf(index)));
    Mix(digest, CoarseRate(traffic.achieved_bps[index]));
  }
  return digest;
}

std::string PathMapView(State& state, const std::string& source) {
  Trusts total;
  std::size_t told = 0;
  JsonWriter json;
  json.BeginObject().Key("pairs").BeginArray();
  state.path_map.ForEachKey([&](const fabric::PortKey& key, const auto& entries) {
    Trusts trusts;
    for (const fabric::PortEntry& entry : entries) {
      trusts.Add(entry);
      ++total.ports[static_cast<std::size_t>(entry.trust)];
    }
    const bool wanted = source.empty() || state.topology.node(key.source).id == source;
    if (wanted && told++ < kMostPairs) WritePair(json, state, key, trusts);
  });
  json.EndArray();
  json.Key("pairs_known").Integer(static_cast<std::int64_t>(state.path_map.KeyCount()));
  json.Key("pairs_left_off")
      .Integer(static_cast<std::int64_t>(told > kMostPairs ? told - kMostPairs : 0));
  total.Write(json);
  json.EndObject();
  return json.Text();
}

}  // namespace espalier::controller
