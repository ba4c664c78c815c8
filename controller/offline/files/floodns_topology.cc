#include "controller/offline/files/floodns_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/units.h"

namespace espalier::offline {
namespace {

using fabric::Link;
using fabric::Node;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::SwitchRole;
using fabric::TopologySpec;

constexpr std::int64_t kMaxNodes = 262'144;
constexpr std::size_t kMaxEdges = 1'048'576;
constexpr std::array<std::string_view, 8> kKeys = {
    "num_nodes",        "num_undirected_edges",    "switches", "servers",
    "undirected_edges", "switches_which_are_tors", "cores",    "link_data_rate_bit_per_ns"};

// A part of the file's text, with its position.
struct Place {
  std::string_view text;
  int line = 1;
  int column = 1;

  Place Sub(std::size_t begin, std::size_t count = std::string_view::npos) const {
    return {text.substr(begin, count), line, column + static_cast<int>(begin)};
  }
  Place Trimmed() const {
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r"), text.size());
    const std::size_t end = text.find_last_not_of(" \t\r");
    return Sub(begin, end == std::string_view::npos ? 0 : end + 1 - begin);
  }
};

// Numbers first ... last.
struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
struct Edge {
  std::int64_t a = 0;
  std::int64_t b = 0;
};

class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name) : text_(text), file_(file_name) {}

  Result<TopologySpec> Read() {
    if (auto done = ReadLines(); !done) return Propagate(done);
    for (const std::string_view key : kKeys) {
      if (values_.contains(key) || key == "cores") continue;
      return FailAt({}, fmt::format("the line \"{}=...\" is missing", key));
    }
    const auto nodes = ReadCount("num_nodes", kMaxNodes);
    if (!nodes) return tl::unexpected<Error>(nodes.error());
    roles_.assign(static_cast<std::size_t>(*nodes), std::nullopt);
    for (const std::string_view key : {"switches", "servers", "switches_which_are_tors", "cores"}) {
      if (auto done = ReadRoles(key); !done) return Propagate(done);
    }
    const auto missing =
        std::ranges::find_if(roles_, [](const auto& role) { return !role.has_value(); });
    if (missing != roles_.end()) {
      return FailAt(values_["servers"], fmt::format("node {} is neither a switch nor a server",
                                                    missing - roles_.begin()));
    }
    if (auto done = ReadEdges(); !done) return Propagate(done);
    return Build();
  }

 private:
  enum class Role { kServer, kTor, kSpine, kCore };

  tl::unexpected<Error> FailAt(const Place& place, std::string_view what) const {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}:{}: {}", file_, place.line, place.column, what));
  }

  Result<void> ReadLines() {
    int line = 0;
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      const Place place = Place{text_.substr(begin, end - begin), ++line, 1}.Trimmed();
      begin = end + 1;
      if (place.text.empty() || place.text.starts_with('#')) continue;
      const std::size_t equals = place.text.find('=');
      if (equals == std::string_view::npos) return FailAt(place, "the line is not KEY=VALUE");
      const std::string_view key = place.Sub(0, equals).Trimmed().text;
      if (std::ranges::find(kKeys, key) == kKeys.end()) {
        return FailAt(place,
                      fmt::format("unknown key \"{}\" (remove the line)", key.substr(0, 40)));
      }
      if (!values_.try_emplace(key, place.Sub(equals + 1).Trimmed()).second) {
        return FailAt(place, fmt::format("a second line \"{}=...\"", key));
      }
    }
    return {};
  }

  Result<std::int64_t> ReadNumber(const Place& place, std::int64_t max) const {
    std::int64_t number = 0;
    const char* end = place.text.data() + place.text.size();
    const auto parsed = std::from_chars(place.text.data(), end, number);
    if (place.text.empty() || parsed.ec != std::errc() || parsed.ptr != end || number < 0 ||
        number > max) {
      return FailAt(place, fmt::format("\"{}\" is not a whole number from 0 to {}",
                                       place.text.substr(0, 40), max));
    }
    return number;
  }

  Result<std::int64_t> ReadCount(std::string_view key, std::int64_t max) {
    return ReadNumber(values_[key], max);
  }

  // "7" or "0:63".
  Result<Range> ReadRange(const Place& place) const {
    const auto most = static_cast<std::int64_t>(roles_.size()) - 1;
    const std::size_t colon = place.text.find(':');
    const auto first = ReadNumber(place.Sub(0, colon).Trimmed(), most);
    if (!first) return tl::unexpected<Error>(first.error());
    if (colon == std::string_view::npos) return Range{*first, *first};
    const auto last = ReadNumber(place.Sub(colon + 1).Trimmed(), most);
    if (!last) return tl::unexpected<Error>(last.error());
    if (*last < *first) return FailAt(place, "the range ends before it begins");
    return Range{*first, *last};
  }

  // Splits the contents of set(...) or incl_range(...) at its commas.
  Result<std::vector<Place>> ReadItems(std::string_view key, std::string_view name) {
    const Place& value = values_[key];
    if (!value.text.starts_with(name) || !value.text.substr(name.size()).starts_with('(') ||
        !value.text.ends_with(')')) {
      return FailAt(value, fmt::format("{} must be set(...) or incl_range(...)", key));
    }
    const Place inner = value.Sub(name.size() + 1, value.text.size() - name.size() - 2).Trimmed();
    std::vector<Place> items;
    for (std::size_t begin = 0; begin < inner.text.size();) {
      const std::size_t end = std::min(inner.text.find(',', begin), inner.text.size());
      items.push_back(inner.Sub(begin, end - begin).Trimmed());
      begin = end + 1;
    }
    return items;
  }
  bool IsRange(std::string_view key) { return values_[key].text.starts_with("incl_range"); }
  Result<std::vector<Place>> ReadItems(std::string_view key) {
    return ReadItems(key, IsRange(key) ? "incl_range" : "set");
  }

  Result<std::vector<Range>> ReadNodes(std::string_view key) {
    auto items = ReadItems(key);
    if (!items) return Propagate(items);
    std::vector<Range> ranges;
    for (const Place& item : *items) {
      auto range = ReadRange(item);
      if (!range) return Propagate(range);
      ranges.push_back(*range);
    }
    if (!IsRange(key)) return ranges;
    if (ranges.size() != 2 || ranges[1].last < ranges[0].first) {
      return FailAt(values_[key], "incl_range takes the first and the last number");
    }
    return std::vector<Range>{{ranges[0].first, ranges[1].last}};
  }

  // Reads the roles of nodes; the edges tell spines from cores.
  Result<void> ReadRoles(std::string_view key) {
    if (!values_.contains(key)) return {};
    auto ranges = ReadNodes(key);
    if (!ranges) return Propagate(ranges);
    const bool defines = key == "switches" || key == "servers";
    for (const Range& range : *ranges) {
      for (std::int64_t node = range.first; node <= range.last; ++node) {
        std::optional<Role>& role = roles_[static_cast<std::size_t>(node)];
        if (defines && role) {
          return FailAt(values_[key], fmt::format("node {} is listed twice", node));
        }
        if (!defines && role != Role::kCore) {
          return FailAt(values_[key], fmt::format("node {} is not a switch, or is "
                                                  "listed twice or as a ToR",
                                                  node));
        }
        if (key == "switches") role = Role::kCore;
        if (key == "servers") role = Role::kServer;
        if (key == "switches_which_are_tors") role = Role::kTor;
      }
    }
    return {};
  }

  Result<void> ReadEdges() {
    auto items = ReadItems("undirected_edges");
    if (!items) return Propagate(items);
    std::vector<std::size_t> item_of;  // by edge
    for (const Place& item : *items) {
      const std::size_t dash = item.text.find('-');
      if (dash == std::string_view::npos) {
        return FailAt(item, "an edge must be two node numbers with a dash between them");
      }
      const auto from = ReadRange(item.Sub(0, dash).Trimmed());
      if (!from) return tl::unexpected<Error>(from.error());
      const auto to = ReadRange(item.Sub(dash + 1).Trimmed());
      if (!to) return tl::unexpected<Error>(to.error());
      for (std::int64_t a = from->first; a <= from->last; ++a) {
        for (std::int64_t b = to->first; b <= to->last; ++b) {
          if (auto done = AddEdge(item, {a, b}); !done) return done;
          item_of.push_back(static_cast<std::size_t>(&item - items->data()));
        }
      }
    }
    if (auto done = CheckDuplicates(*items, item_of); !done) return done;
    const auto count = ReadCount("num_undirected_edges", kMaxEdges);
    if (!count) return tl::unexpected<Error>(count.error());
    if (static_cast<std::size_t>(*count) != edges_.size()) {
      return FailAt(values_["num_undirected_edges"],
                    fmt::format("num_undirected_edges is {}, but {} edges are listed", *count,
                                edges_.size()));
    }
    return {};
  }

  // Stores the edge with the node of the lower tier first.
  Result<void> AddEdge(const Place& item, Edge edge) {
    if (RoleOf(edge.a) > RoleOf(edge.b) || (RoleOf(edge.a) == RoleOf(edge.b) && edge.a > edge.b)) {
      std::swap(edge.a, edge.b);
    }
    if (edge.a == edge.b)
      return FailAt(item, fmt::format("node {} is connected to itself", edge.a));
    if (RoleOf(edge.b) == Role::kServer) {
      return FailAt(
          item, fmt::format("servers {} and {} are connected (connect servers to switches only)",
                            edge.a, edge.b));
    }
    if (edges_.size() == kMaxEdges) {
      return FailAt(item, fmt::format("more than {} edges", kMaxEdges));
    }
    edges_.push_back(edge);
    return {};
  }

  Result<void> CheckDuplicates(const std::vector<Place>& items,
                               const std::vector<std::size_t>& item_of) const {
    std::vector<std::size_t> order(edges_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto ends = [this](std::size_t edge) {
      return std::pair(edges_[edge].a, edges_[edge].b);
    };
    std::ranges::sort(order, {}, [&](std::size_t edge) { return std::pair(ends(edge), edge); });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const auto [a, b] = ends(order[i]);
      if (ends(order[i - 1]) != std::pair(a, b)) continue;
      return FailAt(items[item_of[order[i]]], fmt::format("edge {}-{} is listed twice", a, b));
    }
    return {};
  }

  Role RoleOf(std::int64_t node) const { return *roles_[static_cast<std::size_t>(node)]; }

  Result<TopologySpec> Build() {
    const Place& rate_place = values_["link_data_rate_bit_per_ns"];
    const auto rate = ParseGbps(rate_place.text);
    if (!rate) return FailAt(rate_place, rate.error().message);
    for (const Edge& edge : edges_) {
      if (RoleOf(edge.a) == Role::kTor && RoleOf(edge.b) == Role::kCore) {
        roles_[static_cast<std::size_t>(edge.b)] = Role::kSpine;
      }
    }
    TopologySpec spec;
    spec.name = "floodns";
    std::vector<NodeId> ids(roles_.size(), NodeId(0));
    for (const Role role : {Role::kServer, Role::kTor, Role::kSpine, Role::kCore}) {
      int count = 0;
      for (std::size_t i = 0; i < roles_.size(); ++i) {
        if (roles_[i] != role) continue;
        ids[i] = NodeId(static_cast<std::int32_t>(spec.nodes.size()));
        spec.nodes.push_back(MakeNode(role, count++));
      }
    }
    for (Edge& edge : edges_) {
      if (RoleOf(edge.a) > RoleOf(edge.b)) std::swap(edge.a, edge.b);
    }
    std::ranges::stable_sort(edges_, {}, [this](const Edge& edge) { return RoleOf(edge.a); });
    for (const Edge& edge : edges_) {
      Link link;
      link.a = ids[static_cast<std::size_t>(edge.a)];
      link.b = ids[static_cast<std::size_t>(edge.b)];
      link.rate = *rate;
      spec.links.push_back(std::move(link));
    }
    return spec;
  }

  static Node MakeNode(Role role, int number) {
    Node node;
    node.kind = role == Role::kServer ? NodeKind::kCompute : NodeKind::kSwitch;
    switch (role) {
      case Role::kServer:
        node.id = fmt::format("h{}", number);
        node.host = node.id;
        break;
      case Role::kTor:
        node.id = fmt::format("tor{}", number);
        node.role = SwitchRole::kLeaf;
        break;
      case Role::kSpine:
        node.id = fmt::format("spine{}", number);
        node.role = SwitchRole::kSpine;
        break;
      case Role::kCore:
        node.id = fmt::format("core{}", number);
        node.role = SwitchRole::kCore;
        break;
    }
    return node;
  }

  std::string_view text_;
  std::string file_;
  std::map<std::string_view, Place> values_;  // by key
  std::vector<std::optional<Role>> roles_;    // by node number
  std::vector<Edge> edges_;
};

}  // namespace

Result<TopologySpec> ParseFloodnsTopology(std::string_view text, std::string_view file_name) {
  return Reader(text, file_name).Read();
}

}  // namespace espalier::offline
