#include "deploy/cli/forest/option_files.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "common/files/json.h"

namespace espalier::forest {
namespace {

using fabric::DirectedLink;
using fabric::LinkId;
using fabric::NodeId;
using fabric::Topology;
using io::JsonValue;
using Kind = JsonValue::Kind;

tl::unexpected<Error> At(const std::string& name, int line, int column, std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}:{}: {}", name, line, column, what));
}
tl::unexpected<Error> At(const std::string& name, const JsonValue& value, std::string_view what) {
  return At(name, value.line, value.column, what);
}

std::optional<std::int64_t> ParseWhole(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Finds both directions of the link "id", or the one direction "id>node".
std::vector<DirectedLink> FindDirections(const Topology& topology, const std::string& key) {
  std::vector<DirectedLink> found;
  const std::size_t arrow = key.rfind('>');
  const auto whole = topology.FindLink(key);
  const auto link = whole || arrow == std::string::npos
                        ? whole
                        : topology.FindLink(std::string_view(key).substr(0, arrow));
  if (!link) return found;
  for (const bool forward : {true, false}) {
    const DirectedLink direction{*link, forward};
    if (!forward && topology.link(*link).directed) continue;
    if (whole || topology.DirectionName(direction) == key) found.push_back(direction);
  }
  return found;
}

}  // namespace

Result<std::vector<NodeId>> ParseRanks(const std::string& text, const std::string& name,
                                       const Topology& topology) {
  const auto document = io::ParseJson(text, name);
  if (!document) return tl::unexpected<Error>(document.error());
  if (document->kind != Kind::kArray || document->items.empty()) {
    return At(name, *document, "the ranks must be an array of ids, such as [\"h0\", \"h1\"]");
  }
  std::vector<NodeId> ranks;
  for (const JsonValue& item : document->items) {
    const auto node = item.kind == Kind::kString ? topology.FindNode(item.text) : std::nullopt;
    if (!node) return At(name, item, "a rank must be the id of a node of the topology");
    if (topology.node(*node).kind != fabric::NodeKind::kCompute) {
      return At(name, item, fmt::format("{} is not a COMPUTE node", item.text));
    }
    ranks.push_back(*node);
  }
  return ranks;
}

Result<std::vector<std::int64_t>> ParseWeights(const std::string& text, const std::string& name,
                                               const Topology& topology,
                                               const std::vector<NodeId>& ranks) {
  const auto document = io::ParseJson(text, name);
  if (!document) return tl::unexpected<Error>(document.error());
  if (document->kind != Kind::kObject) {
    return At(name, *document, "the weights must be an object, such as {\"h0\": 2, \"h1\": 0}");
  }
  std::vector<std::optional<std::int64_t>> weight_of(topology.nodes().size());
  for (const auto& [id, value] : document->members) {
    const auto node = topology.FindNode(id);
    if (!node) {
      return At(name, value.key_line, value.key_column,
                fmt::format("the topology has no node \"{}\"", id));
    }
    const auto weight = value.kind == Kind::kNumber ? ParseWhole(value.text) : std::nullopt;
    if (!weight) return At(name, value, "a weight must be a whole number, 0 or more");
    weight_of[node->Index()] = weight;
  }
  std::vector<std::int64_t> weights;
  const auto take = [&](std::size_t node) -> bool {
    if (!weight_of[node]) return false;
    weights.push_back(*std::exchange(weight_of[node], std::nullopt));
    return true;
  };
  const auto missing = [&](std::size_t node) {
    return At(name, *document,
              fmt::format("{} has no weight (write 0 for a rank that only receives)",
                          topology.nodes()[node].id));
  };
  if (ranks.empty()) {
    for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
      if (topology.nodes()[i].kind == fabric::NodeKind::kCompute && !take(i)) return missing(i);
    }
  }
  for (const NodeId rank : ranks) {
    if (!take(rank.Index())) return missing(rank.Index());
  }
  for (const auto& [id, value] : document->members) {
    if (!weight_of[topology.FindNode(id)->Index()]) continue;
    return At(name, value.key_line, value.key_column, fmt::format("{} is not a rank", id));
  }
  return weights;
}

Result<std::vector<BitsPerSecond>> ParseShare(const std::string& text, const std::string& name,
                                              const Topology& topology) {
  const auto document = io::ParseJson(text, name);
  if (!document) return tl::unexpected<Error>(document.error());
  if (document->kind != Kind::kObject) {
    return At(name, *document, "the share must be an object, such as {\"h0--leaf0\": 40}");
  }
  std::vector<BitsPerSecond> available;
  for (const fabric::Link& link : topology.links()) {
    available.push_back(link.rate);
    available.push_back(link.directed ? BitsPerSecond{0} : link.rate);
  }
  for (const auto& [key, value] : document->members) {
    const std::vector<DirectedLink> directions = FindDirections(topology, key);
    if (directions.empty()) {
      return At(name, value.key_line, value.key_column,
                fmt::format("the topology has no link \"{}\" (write an id, or ID>NODE for one "
                            "direction)",
                            key));
    }
    if (value.kind != Kind::kNumber && value.kind != Kind::kString) {
      return At(name, value, "a share must be a number of Gbit/s");
    }
    const bool none = value.text == "0";
    const auto rate = none ? Result<BitsPerSecond>(BitsPerSecond{0}) : ParseGbps(value.text);
    if (!rate) return At(name, value, rate.error().message);
    for (const DirectedLink direction : directions) {
      if (*rate > topology.link(direction.link).rate) {
        return At(name, value,
                  fmt::format("the share exceeds the {} Gbit/s of the link",
                              FormatGbps(topology.link(direction.link).rate)));
      }
      available[direction.Index()] = *rate;
    }
  }
  return available;
}

}  // namespace espalier::forest
