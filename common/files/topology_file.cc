#include "common/files/topology_file.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "common/base/enum_names.h"
#include "common/fabric/ecmp/ecmp_hash.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"

namespace espalier::io {
namespace {

using fabric::EcmpSpec;
using fabric::Link;
using fabric::LinkState;
using fabric::Node;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::SwitchRole;
using fabric::Topology;
using fabric::TopologySpec;

constexpr std::int64_t kMaxGidIndex = 255;
constexpr std::int64_t kMaxMembers = 64;

// Reads a field whose value is the name of an enumerator, of `first` or a later one.
template <typename Enum>
Enum ReadWord(JsonFields& fields, std::string_view key, Enum fallback,
              std::string_view (*name_of)(Enum), Enum first = Enum{}) {
  const std::string word = fields.String(key, name_of(fallback));
  std::string known;
  for (auto i = static_cast<std::size_t>(first); i < EnumNames<Enum>::kCount; ++i) {
    const auto value = static_cast<Enum>(i);
    if (word == name_of(value)) return value;
    known += (known.empty() ? "" : ", ") + std::string(name_of(value));
  }
  fields.AddError(key, fmt::format("unknown {} \"{}\" (write one of {})", key, word, known));
  return fallback;
}

class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_(file_name) {}

  Result<Topology> Read(const JsonValue& document) {
    JsonFields fields(document, file_);
    TopologySpec spec;
    spec.name = fields.String("name");
    spec.version = fields.Integer("version", 1, 0, std::numeric_limits<std::int64_t>::max() / 2);
    const auto& nodes = fields.RequiredArray("nodes");
    const auto& links = fields.RequiredArray("links");
    if (auto done = fields.Finish(); !done) return Propagate(done);

    for (const JsonValue& node : nodes) {
      if (auto done = ReadNode(node, spec); !done) return Propagate(done);
    }
    // Errors in nodes are reported before the errors of links that result from them.
    TopologySpec nodes_only;
    nodes_only.nodes = spec.nodes;
    for (Node& node : nodes_only.nodes) node.weights.clear();  // they name links
    if (auto checked = Topology::Build(std::move(nodes_only)); !checked) {
      return Locate(document, nodes, links, checked.error());
    }
    for (const JsonValue& link : links) {
      if (auto done = ReadLink(link, spec); !done) return Propagate(done);
    }
    auto topology = Topology::Build(std::move(spec));
    if (topology) return std::move(*topology);
    return Locate(document, nodes, links, topology.error());
  }

 private:
  using SpecError = Topology::SpecError;

  Result<void> ReadNode(const JsonValue& value, TopologySpec& spec) {
    JsonFields fields(value, file_);
    Node node;
    node.id = fields.RequiredString("id");
    fields.RequiredString("kind");
    node.kind = ReadWord(fields, "kind", NodeKind::kCompute, fabric::NodeKindName);
    if (fields.Has("role")) {
      node.role =
          ReadWord(fields, "role", SwitchRole::kLeaf, fabric::SwitchRoleName, SwitchRole::kLeaf);
    }
    node.host = fields.String("host");
    node.multicast = fields.Bool("multicast", false);
    node.reduce = fields.Bool("reduce", false);
    ReadAddresses(fields, node);
    node.device = fields.String("device");
    if (const auto gid = fields.Integer("gid_index", -1, 0, kMaxGidIndex); gid >= 0) {
      node.gid_index = static_cast<int>(gid);
    }
    node.uplink =
        ReadWord(fields, "uplink", fabric::UplinkChoice::kUnknown, fabric::UplinkChoiceName);
    if (auto done = ReadHash(fields, node); !done) return done;
    if (const JsonValue* weights = fields.Object("weights")) {
      JsonFields of_links(*weights, file_);
      for (const auto& [link, weight] : weights->members) {
        node.weights.push_back(
            {link, static_cast<int>(of_links.Integer(link, 1, 1, fabric::kMaxWeight))});
      }
      if (auto done = of_links.Finish(); !done) return done;
    }
    if (auto done = fields.Finish(); !done) return done;
    // The first node with an id keeps it; Topology::Build refuses the second.
    node_by_id_.try_emplace(node.id, NodeId(static_cast<std::int32_t>(spec.nodes.size())));
    spec.nodes.push_back(std::move(node));
    return {};
  }

  // A switch has an "ecmp" hash, a NIC an "uplink_hash".
  Result<void> ReadHash(JsonFields& fields, Node& node) {
    const bool is_switch = node.kind == NodeKind::kSwitch;
    for (const std::string_view key : {"ecmp", "uplink_hash"}) {
      const JsonValue* hash = fields.Object(key);
      if (hash == nullptr) continue;
      auto read = ReadEcmp(*hash);
      if (!read) return Propagate(read);
      node.ecmp = std::move(*read);
      if (key == "uplink_hash" && is_switch) {
        fields.AddError(key, fmt::format("node \"{}\" is a SWITCH, which has no uplink_hash (write "
                                         "\"ecmp\")",
                                         node.id));
      }
      if (key == "uplink_hash" && !is_switch && node.uplink != fabric::UplinkChoice::kHash) {
        fields.AddError(key, fmt::format("node \"{}\" has an uplink_hash without \"uplink\": "
                                         "\"hash\" (add the field, or remove the hash)",
                                         node.id));
      }
      if (key == "ecmp" && !is_switch && node.uplink == fabric::UplinkChoice::kHash) {
        fields.AddError(key, fmt::format("node \"{}\" is a {}, but only a SWITCH can have an ecmp "
                                         "hash (write \"uplink_hash\")",
                                         node.id, fabric::NodeKindName(node.kind)));
      }
    }
    return {};
  }

  void ReadAddresses(JsonFields& fields, Node& node) {
    for (const JsonValue& item : fields.Array("addresses")) {
      if (item.kind != JsonValue::Kind::kString) {
        fields.AddError("addresses",
                        "field \"addresses\" must be an array of strings, such as [\"10.0.0.1\"]");
        return;
      }
      if (const auto address = ReadAddress(fields, "addresses", item.text)) {
        node.addresses.push_back(*address);
      }
    }
  }

  static std::optional<IpAddress> ReadAddress(JsonFields& fields, std::string_view key,
                                              std::string_view text) {
    auto address = IpAddress::Parse(text);
    if (address && !address->IsNone()) return *address;
    fields.AddError(
        key, address
                 ? std::string("\"::\" is not the address of an interface (write its own address)")
                 : address.error().message);
    return std::nullopt;
  }

  Result<EcmpSpec> ReadEcmp(const JsonValue& value) {
    JsonFields fields(value, file_);
    EcmpSpec spec;
    spec.hash = fields.RequiredString("hash");
    if (const auto seed = fields.Decimal("seed")) {
      const char* end = seed->data() + seed->size();
      const auto parsed = std::from_chars(seed->data(), end, spec.seed);
      if (parsed.ec != std::errc() || parsed.ptr != end) {
        fields.AddError("seed", "field \"seed\" must be a whole number from 0 to 2^64 - 1");
      }
    }
    if (auto hash = fabric::MakeEcmpHash(spec); !hash) {
      const bool is_name = hash.error().code == ErrorCode::kNotFound;
      fields.AddError(is_name ? "hash" : "seed", hash.error().message);
    }
    if (auto done = fields.Finish(); !done) return Propagate(done);
    return spec;
  }

  Result<void> ReadLink(const JsonValue& value, TopologySpec& spec) {
    JsonFields fields(value, file_);
    Link link;
    link.id = fields.String("id");
    if (fields.Has("id") && link.id.empty()) {
      fields.AddError(
          "id", "a link's id is empty (give it a name, or remove the field for the default id)");
    }
    link.a = ReadEnd(fields, "a");
    link.b = ReadEnd(fields, "b");
    if (const auto text = fields.Decimal("gbps")) {
      auto rate = ParseGbps(*text);
      if (rate) link.rate = *rate;
      if (!rate) fields.AddError("gbps", rate.error().message);
    } else if (!fields.Has("gbps")) {
      fields.AddError("gbps", "field \"gbps\" is missing (add the bandwidth in Gbit/s)");
    }
    link.directed = fields.Bool("directed", false);
    link.state = ReadWord(fields, "state", LinkState::kUp, fabric::LinkStateName);
    link.members = static_cast<int>(fields.Integer("members", 1, 1, kMaxMembers));
    for (const auto& [key, address] :
         {std::pair("a_address", &link.a_address), std::pair("b_address", &link.b_address)}) {
      const std::string text = fields.String(key);
      if (!fields.Has(key)) continue;
      if (const auto read = ReadAddress(fields, key, text)) *address = *read;
    }
    link.a_port = fields.String("a_port");
    link.b_port = fields.String("b_port");
    if (auto done = fields.Finish(); !done) return done;
    spec.links.push_back(std::move(link));
    return {};
  }

  NodeId ReadEnd(JsonFields& fields, std::string_view key) {
    const std::string id = fields.RequiredString(key);
    const auto found = node_by_id_.find(id);
    if (found != node_by_id_.end()) return found->second;
    fields.AddError(
        key, fmt::format("no node has the id \"{}\" (add the node to \"nodes\", or correct the id)",
                         id));
    return NodeId(0);
  }

  tl::unexpected<Error> Locate(const JsonValue& document, const std::vector<JsonValue>& nodes,
                               const std::vector<JsonValue>& links, const SpecError& error) const {
    const JsonValue* part = &document;
    if (error.part == SpecError::Part::kNode) part = &nodes[error.index];
    if (error.part == SpecError::Part::kLink) part = &links[error.index];
    const JsonValue* field = part->Find(error.field);
    const JsonValue& at = field != nullptr ? *field : *part;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}:{}: {}", file_, at.line, at.column, error.error.message));
  }

  std::string file_;
  std::unordered_map<std::string, NodeId> node_by_id_;
};

void OptionalString(JsonWriter& json, std::string_view key, const std::string& value) {
  if (!value.empty()) json.Key(key).String(value);
}

std::string FormatNode(const Node& node) {
  JsonWriter json;
  json.BeginObject();
  json.Key("id").String(node.id).Key("kind").String(fabric::NodeKindName(node.kind));
  if (node.role != SwitchRole::kNone) json.Key("role").String(fabric::SwitchRoleName(node.role));
  OptionalString(json, "host", node.host);
  if (node.multicast) json.Key("multicast").Bool(true);
  if (node.reduce) json.Key("reduce").Bool(true);
  if (!node.addresses.empty()) {
    json.Key("addresses").BeginArray();
    for (const IpAddress& address : node.addresses) json.String(address.ToString());
    json.EndArray();
  }
  OptionalString(json, "device", node.device);
  if (node.gid_index) json.Key("gid_index").Integer(*node.gid_index);
  if (!node.weights.empty()) {
    json.Key("weights").BeginObject();
    for (const fabric::NextHopWeight& next : node.weights) json.Key(next.link).Integer(next.weight);
    json.EndObject();
  }
  if (node.uplink != fabric::UplinkChoice::kUnknown) {
    json.Key("uplink").String(fabric::UplinkChoiceName(node.uplink));
  }
  if (node.ecmp) {
    json.Key(node.kind == NodeKind::kSwitch ? "ecmp" : "uplink_hash")
        .BeginObject()
        .Key("hash")
        .String(node.ecmp->hash);
    json.Key("seed");
    if (node.ecmp->seed < std::uint64_t{1} << 53) {
      json.Integer(static_cast<std::int64_t>(node.ecmp->seed));
    } else {
      json.String(std::to_string(node.ecmp->seed));
    }
    json.EndObject();
  }
  json.EndObject();
  return json.Text();
}

std::string FormatLink(const TopologySpec& spec, const Link& link) {
  JsonWriter json;
  json.BeginObject();
  OptionalString(json, "id", link.id);
  json.Key("a").String(spec.nodes[link.a.Index()].id);
  json.Key("b").String(spec.nodes[link.b.Index()].id);
  json.Key("gbps").String(FormatGbps(link.rate));
  if (link.directed) json.Key("directed").Bool(true);
  if (link.state != LinkState::kUp) json.Key("state").String(fabric::LinkStateName(link.state));
  if (link.members != 1) json.Key("members").Integer(link.members);
  if (!link.a_address.IsNone()) json.Key("a_address").String(link.a_address.ToString());
  if (!link.b_address.IsNone()) json.Key("b_address").String(link.b_address.ToString());
  OptionalString(json, "a_port", link.a_port);
  OptionalString(json, "b_port", link.b_port);
  json.EndObject();
  return json.Text();
}

// A JSON array with one item on each line.
template <typename Items, typename Format>
std::string FormatLines(const Items& items, Format format) {
  std::string text = "[";
  for (const auto& item : items) {
    text += text.size() == 1 ? "\n" : ",\n";
    text += "  ";
    text += format(item);
  }
  return text + (items.empty() ? "]" : "\n ]");
}

}  // namespace

Result<Topology> ParseTopology(std::string_view text, std::string_view file_name) {
  auto document = ParseJson(text, file_name);
  if (!document) return Propagate(document);
  return Reader(file_name).Read(*document);
}

Result<Topology> ReadTopologyFile(const std::string& path) {
  auto text = ReadFile(path);
  if (!text) return Propagate(text);
  return ParseTopology(*text, path);
}

std::string FormatTopology(const TopologySpec& spec) {
  JsonWriter name;
  name.String(spec.name);
  JsonWriter version;
  version.Integer(spec.version);
  return fmt::format(
      "{{\"name\": {}, \"version\": {},\n \"nodes\": {},\n \"links\": {}}}\n", name.Text(),
      version.Text(), FormatLines(spec.nodes, FormatNode),
      FormatLines(spec.links, [&](const Link& link) { return FormatLink(spec, link); }));
}

void WriteTopologyChanges(JsonWriter& json, std::span<const fabric::TopologyChange> changes) {
  json.Key("changes").BeginArray();
  for (const fabric::TopologyChange& change : changes) {
    json.BeginObject();
    json.Key("what").String(change.is_link ? "link" : "node");
    json.Key("change").String(fabric::TopologyChangeName(change.kind));
    json.Key("id").String(change.id);
    json.Key("detail").String(change.detail);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace espalier::io
