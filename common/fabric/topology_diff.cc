#include "common/fabric/topology_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/enum_names.h"

namespace espalier::fabric {
namespace {

using Kind = TopologyChange::Kind;

// One end of a link.
struct End {
  std::string node;
  std::string port;
  IpAddress address;
  auto operator<=>(const End&) const = default;
};

std::pair<End, End> EndsOf(const Topology& topology, const Link& link) {
  End a{topology.node(link.a).id, link.a_port, link.a_address};
  End b{topology.node(link.b).id, link.b_port, link.b_address};
  if (!link.directed && b < a) std::swap(a, b);
  return {std::move(a), std::move(b)};
}

std::string Format(const End& end) {
  return end.port.empty() ? end.node : fmt::format("{}:{}", end.node, end.port);
}

std::string FormatEnds(const Topology& topology, const Link& link) {
  const auto [a, b] = EndsOf(topology, link);
  return fmt::format("{} {} {}", Format(a), link.directed ? "->" : "--", Format(b));
}

void DiffNodes(const Topology& before, const Topology& after,
               std::vector<TopologyChange>& changes) {
  std::map<std::string_view, std::pair<const Node*, const Node*>> nodes;
  for (const Node& node : before.nodes()) nodes[node.id].first = &node;
  for (const Node& node : after.nodes()) nodes[node.id].second = &node;
  for (const auto& [id, both] : nodes) {
    const auto& [old, now] = both;
    if (old == nullptr || now == nullptr) {
      changes.push_back({.kind = old == nullptr ? Kind::kAdded : Kind::kRemoved,
                         .id = std::string(id),
                         .detail = std::string(NodeKindName((old ? old : now)->kind))});
      continue;
    }
    std::vector<std::string_view> fields;
    const auto compare = [&](std::string_view name, const auto& a, const auto& b) {
      if (a != b) fields.push_back(name);
    };
    compare("kind", old->kind, now->kind);
    compare("role", old->role, now->role);
    compare("host", old->host, now->host);
    compare("multicast", old->multicast, now->multicast);
    compare("reduce", old->reduce, now->reduce);
    compare("addresses", old->addresses, now->addresses);
    compare("device", old->device, now->device);
    compare("gid_index", old->gid_index, now->gid_index);
    compare("ecmp", old->ecmp, now->ecmp);
    compare("uplink", old->uplink, now->uplink);
    compare("weights", old->weights, now->weights);
    if (fields.empty()) continue;
    changes.push_back({.kind = Kind::kChanged,
                       .id = std::string(id),
                       .detail = fmt::format("{}", fmt::join(fields, ", "))});
  }
}

// Adds what differs in a link that is in both topologies.
void DiffLink(const Topology& before, const Link& old, const Topology& after, const Link& now,
              bool with_states, std::vector<TopologyChange>& changes) {
  const auto add = [&](Kind kind, std::string detail) {
    changes.push_back({.is_link = true, .kind = kind, .id = now.id, .detail = std::move(detail)});
  };
  if (old.id != now.id) add(Kind::kChanged, fmt::format("its id was {}", old.id));
  const auto from = EndsOf(before, old);
  const auto to = EndsOf(after, now);
  const auto place = [](const std::pair<End, End>& ends) {
    return std::tuple(ends.first.node, ends.first.port, ends.second.node, ends.second.port);
  };
  if (place(from) != place(to)) {
    add(Kind::kRecabled, fmt::format("{} -> {}", FormatEnds(before, old), FormatEnds(after, now)));
  } else if (from != to) {
    add(Kind::kChanged, "addresses");
  }
  if (old.members != now.members) {
    add(Kind::kChanged, fmt::format("{} -> {} members", old.members, now.members));
  }
  if (old.rate.value != now.rate.value) {
    add(Kind::kRate, fmt::format("{} -> {} Gbit/s", FormatGbps(old.rate), FormatGbps(now.rate)));
  }
  if (old.directed != now.directed) add(Kind::kChanged, "directed");
  if (with_states && old.state != now.state) {
    add(Kind::kChanged,
        fmt::format("{} -> {}", LinkStateName(old.state), LinkStateName(now.state)));
  }
}

}  // namespace

std::string_view TopologyChangeName(TopologyChange::Kind kind) {
  static constexpr EnumNames<Kind> kNames({{Kind::kAdded, "ADDED"},
                                           {Kind::kRemoved, "REMOVED"},
                                           {Kind::kRecabled, "RECABLED"},
                                           {Kind::kRate, "RATE"},
                                           {Kind::kChanged, "CHANGED"}});
  return kNames.NameOf(kind);
}

bool JoinsSameNodes(const Topology& before, const Link& link, const Topology& after,
                    const Link& same) {
  const auto nodes = [](const Topology& topology, const Link& one) {
    const auto [a, b] = EndsOf(topology, one);
    return std::pair(a.node, b.node);
  };
  return nodes(before, link) == nodes(after, same);
}

std::vector<TopologyChange> DiffTopologies(const Topology& before, const Topology& after,
                                           bool with_states) {
  std::vector<TopologyChange> changes;
  DiffNodes(before, after, changes);
  std::map<std::string_view, std::pair<const Link*, const Link*>> links;
  for (const Link& link : before.links()) links[link.id].first = &link;
  for (const Link& link : after.links()) links[link.id].second = &link;
  // The removed links by their named ports.
  std::map<std::pair<std::string, std::string>, const Link*> removed_at;
  for (const auto& [id, both] : links) {
    if (both.second != nullptr) continue;
    const auto ends = EndsOf(before, *both.first);
    for (const End& end : {ends.first, ends.second}) {
      if (!end.port.empty()) removed_at.emplace(std::pair(end.node, end.port), both.first);
    }
  }
  std::set<const Link*> moved;  // removed links that an added one takes the place of
  std::map<const Link*, const Link*> was;
  for (const auto& [id, both] : links) {
    if (both.first != nullptr) continue;
    const auto ends = EndsOf(after, *both.second);
    for (const End& end : {ends.first, ends.second}) {
      const auto found = removed_at.find({end.node, end.port});
      if (end.port.empty() || found == removed_at.end() || was.contains(both.second)) continue;
      if (moved.insert(found->second).second) was[both.second] = found->second;
    }
  }
  for (const auto& [id, both] : links) {
    const auto& [old, now] = both;
    if (old != nullptr && now != nullptr) {
      DiffLink(before, *old, after, *now, with_states, changes);
    } else if (now != nullptr && was.contains(now)) {
      DiffLink(before, *was[now], after, *now, with_states, changes);
    } else if (now != nullptr) {
      changes.push_back(
          {true, Kind::kAdded, std::string(id),
           fmt::format("{}, {} Gbit/s", FormatEnds(after, *now), FormatGbps(now->rate))});
    } else if (!moved.contains(old)) {
      changes.push_back({true, Kind::kRemoved, std::string(id), FormatEnds(before, *old)});
    }
  }
  return changes;
}

}  // namespace espalier::fabric
