#include "common/fabric/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/enum_names.h"

namespace espalier::fabric {
namespace {

using SpecError = Topology::SpecError;

constexpr std::size_t kMaxNodes = std::size_t{1} << 24;
constexpr std::size_t kMaxLinks = std::size_t{1} << 26;
constexpr std::size_t kMaxIdBytes = 255;

SpecError Wrong(SpecError::Part part, std::size_t index, std::string_view field, ErrorCode code,
                std::string message) {
  return {part, index, field, Error{code, std::move(message)}};
}

// The reason why an id is refused, with the remedy; empty if the id is valid.
std::string_view ProblemOfId(std::string_view id) {
  if (id.empty()) return "is empty (give it a name)";
  if (id.size() > kMaxIdBytes) return "is longer than 255 bytes (shorten it)";
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(id.begin(), id.end(), is_control))
    return "contains a control character (remove it)";
  return {};
}

// Gives every link without an id the first free one of "a--b", "a--b#2", "a--b#3", ... `taken`
// holds the ids that the file gives.
void NameLinks(std::span<const Node> nodes, std::span<Link> links,
               const std::unordered_map<std::string, LinkId>& taken) {
  std::unordered_map<std::string, int> used;  // parallel links named so far, by first id
  for (Link& link : links) {
    if (!link.id.empty()) continue;
    const std::string first = nodes[link.a.Index()].id + "--" + nodes[link.b.Index()].id;
    int& count = used[first];
    do {
      ++count;
      link.id = count == 1 ? first : fmt::format("{}#{}", first, count);
    } while (taken.contains(link.id));
  }
}

}  // namespace

std::string_view NodeKindName(NodeKind kind) {
  static constexpr EnumNames<NodeKind> kNodeKindNames({
      {NodeKind::kCompute, "COMPUTE"},
      {NodeKind::kNic, "NIC"},
      {NodeKind::kSwitch, "SWITCH"},
  });
  return kNodeKindNames.NameOf(kind);
}

std::string_view SwitchRoleName(SwitchRole role) {
  static constexpr EnumNames<SwitchRole> kSwitchRoleNames({
      {SwitchRole::kNone, "NONE"},
      {SwitchRole::kLeaf, "LEAF"},
      {SwitchRole::kSpine, "SPINE"},
      {SwitchRole::kCore, "CORE"},
  });
  return kSwitchRoleNames.NameOf(role);
}

std::string_view UplinkChoiceName(UplinkChoice choice) {
  static constexpr EnumNames<UplinkChoice> kUplinkChoiceNames({
      {UplinkChoice::kUnknown, "unknown"},
      {UplinkChoice::kHash, "hash"},
      {UplinkChoice::kAffinity, "affinity"},
      {UplinkChoice::kFixed, "fixed"},
  });
  return kUplinkChoiceNames.NameOf(choice);
}

std::string_view LinkStateName(LinkState state) {
  static constexpr EnumNames<LinkState> kLinkStateNames({
      {LinkState::kUp, "UP"},
      {LinkState::kDown, "DOWN"},
      {LinkState::kDrained, "DRAINED"},
  });
  return kLinkStateNames.NameOf(state);
}

tl::expected<Topology, SpecError> Topology::Build(TopologySpec spec) {
  if (spec.nodes.size() > kMaxNodes || spec.links.size() > kMaxLinks) {
    return tl::unexpected(
        Wrong(SpecError::Part::kTopology, 0, "", ErrorCode::kResourceExhausted,
              fmt::format("the topology has {} nodes and {} links (the limits are {} and {})",
                          spec.nodes.size(), spec.links.size(), kMaxNodes, kMaxLinks)));
  }
  Topology topology;
  topology.name_ = std::move(spec.name);
  topology.version_ = spec.version;
  topology.nodes_ = std::move(spec.nodes);
  topology.links_ = std::move(spec.links);
  if (auto error = topology.IndexNodes()) return tl::unexpected(std::move(*error));
  if (auto error = topology.IndexLinks()) return tl::unexpected(std::move(*error));
  if (auto error = topology.IndexWeights()) return tl::unexpected(std::move(*error));
  topology.IndexOutgoing();
  topology.FindUplinks();
  if (auto error = topology.IndexAddresses()) return tl::unexpected(std::move(*error));
  return topology;
}

std::optional<SpecError> Topology::IndexNodes() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const auto wrong = [&](std::string_view field, ErrorCode code, std::string message) {
      return Wrong(SpecError::Part::kNode, i, field, code, std::move(message));
    };
    if (const auto problem = ProblemOfId(node.id); !problem.empty()) {
      return wrong("id", ErrorCode::kInvalidArgument, fmt::format("a node's id {}", problem));
    }
    if (!node_by_id_.emplace(node.id, NodeId(static_cast<std::int32_t>(i))).second) {
      return wrong("id", ErrorCode::kAlreadyExists,
                   fmt::format("two nodes have the id \"{}\" (rename one)", node.id));
    }
    if (node.kind == NodeKind::kSwitch) {
      if (node.uplink == UplinkChoice::kUnknown) continue;
      return wrong("uplink", ErrorCode::kInvalidArgument,
                   fmt::format("node \"{}\" is a SWITCH, but only a NIC or COMPUTE can have an "
                               "uplink choice (remove the field)",
                               node.id));
    }
    const bool may_hash = node.uplink == UplinkChoice::kHash;
    if (node.role != SwitchRole::kNone || (node.ecmp.has_value() && !may_hash)) {
      return wrong(
          node.ecmp ? "ecmp" : "role", ErrorCode::kInvalidArgument,
          fmt::format("node \"{}\" is a {}, but only a SWITCH can have {} (remove the field)",
                      node.id, NodeKindName(node.kind), node.ecmp ? "an ecmp hash" : "a role"));
    }
  }
  return std::nullopt;
}

std::optional<SpecError> Topology::IndexLinks() {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const Link& link = links_[i];
    const auto wrong = [&](std::string_view field, ErrorCode code, std::string message) {
      return Wrong(SpecError::Part::kLink, i, field, code, std::move(message));
    };
    for (const auto& [field, end] : {std::pair("a", link.a), std::pair("b", link.b)}) {
      if (end.value() < 0 || end.Index() >= nodes_.size()) {
        return wrong(
            field, ErrorCode::kNotFound,
            fmt::format("end {} of link \"{}\" is not an index of a node", field, link.id));
      }
    }
    if (link.a == link.b) {
      return wrong("b", ErrorCode::kInvalidArgument,
                   fmt::format("the link joins \"{}\" to itself (name two different nodes)",
                               node(link.a).id));
    }
    if (link.rate.value <= 0) {
      return wrong("gbps", ErrorCode::kInvalidArgument,
                   "the bandwidth is not positive (write a positive number of Gbit/s)");
    }
    if (link.id.empty()) continue;
    if (const auto problem = ProblemOfId(link.id); !problem.empty()) {
      return wrong("id", ErrorCode::kInvalidArgument, fmt::format("a link's id {}", problem));
    }
    if (!link_by_id_.emplace(link.id, LinkId(static_cast<std::int32_t>(i))).second) {
      return wrong("id", ErrorCode::kAlreadyExists,
                   fmt::format("two links have the id \"{}\" (rename one)", link.id));
    }
  }
  NameLinks(nodes_, links_, link_by_id_);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    link_by_id_.emplace(links_[i].id, LinkId(static_cast<std::int32_t>(i)));
  }
  return std::nullopt;
}

std::optional<SpecError> Topology::IndexWeights() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    for (const NextHopWeight& next : nodes_[i].weights) {
      const auto wrong = [&](ErrorCode code, std::string message) {
        return Wrong(SpecError::Part::kNode, i, "weights", code, std::move(message));
      };
      const auto found = FindLink(next.link);
      const bool is_own = found && (link(*found).a == node || link(*found).b == node);
      if (!is_own) {
        return wrong(ErrorCode::kNotFound,
                     fmt::format("node \"{}\" has no link with the id \"{}\" (name its own links)",
                                 nodes_[i].id, next.link));
      }
      if (next.weight < 1 || next.weight > kMaxWeight) {
        return wrong(ErrorCode::kInvalidArgument,
                     fmt::format("the weight of \"{}\" is {} (write 1 to {})", next.link,
                                 next.weight, kMaxWeight));
      }
      weights_.resize(2 * links_.size(), 1);
      weights_[DirectedLink{*found, link(*found).a == node}.Index()] = next.weight;
    }
  }
  return std::nullopt;
}

void Topology::IndexOutgoing() {
  outgoing_begin_.assign(nodes_.size() + 1, 0);
  const auto for_each_direction = [&](auto visit) {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const LinkId id(static_cast<std::int32_t>(i));
      visit(links_[i].a, DirectedLink{id, true});
      if (!links_[i].directed) visit(links_[i].b, DirectedLink{id, false});
    }
  };
  for_each_direction([&](NodeId from, DirectedLink) { ++outgoing_begin_[from.Index() + 1]; });
  for (std::size_t i = 0; i < nodes_.size(); ++i) outgoing_begin_[i + 1] += outgoing_begin_[i];
  outgoing_.resize(static_cast<std::size_t>(outgoing_begin_.back()));
  std::vector<std::int32_t> next(outgoing_begin_.begin(), outgoing_begin_.end() - 1);
  for_each_direction([&](NodeId from, DirectedLink direction) {
    outgoing_[static_cast<std::size_t>(next[from.Index()]++)] = direction;
  });
}

void Topology::FindUplinks() {
  has_several_uplinks_.assign(nodes_.size(), false);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].kind == NodeKind::kSwitch || nodes_[i].uplink == UplinkChoice::kFixed) continue;
    const auto directions = Outgoing(NodeId(static_cast<std::int32_t>(i)));
    has_several_uplinks_[i] = std::ranges::count_if(directions, [&](DirectedLink direction) {
                                return LeavesHost(direction);
                              }) > 1;
  }
}

std::optional<SpecError> Topology::IndexAddresses() {
  const auto used_twice = [&](SpecError::Part part, std::size_t index, std::string_view field,
                              const IpAddress& address) {
    const NodeId holder = interface_by_address_.at(address).node;
    return Wrong(
        part, index, field, ErrorCode::kAlreadyExists,
        fmt::format(
            "address {} is used twice: node \"{}\" has it already (give each interface its own)",
            address.ToString(), node(holder).id));
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const NodeId id(static_cast<std::int32_t>(i));
    for (const IpAddress& address : nodes_[i].addresses) {
      if (!interface_by_address_.emplace(address, Interface{id, std::nullopt}).second) {
        return used_twice(SpecError::Part::kNode, i, "addresses", address);
      }
      if (IsFlowEndpoint(id)) nic_by_address_.emplace(address, id);
    }
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const Link& link = links_[i];
    const Interface ends[] = {{link.a, LinkId(static_cast<std::int32_t>(i))},
                              {link.b, LinkId(static_cast<std::int32_t>(i))}};
    for (const Interface& end : ends) {
      const bool is_a = end.node == link.a;
      const IpAddress& address = is_a ? link.a_address : link.b_address;
      if (address.IsNone()) continue;
      Interface& known = interface_by_address_.try_emplace(address, end).first->second;
      // A link end may repeat an address of its own node, once.
      if (known.node != end.node || (known.link.has_value() && known.link != end.link)) {
        return used_twice(SpecError::Part::kLink, i, is_a ? "a_address" : "b_address", address);
      }
      known.link = end.link;
      if (IsFlowEndpoint(end.node)) nic_by_address_.emplace(address, end.node);
    }
  }
  return std::nullopt;
}

std::optional<NodeId> Topology::FindNode(std::string_view id) const {
  const auto found = node_by_id_.find(std::string(id));
  return found == node_by_id_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<LinkId> Topology::FindLink(std::string_view id) const {
  const auto found = link_by_id_.find(std::string(id));
  return found == link_by_id_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<NodeId> Topology::FindNic(const IpAddress& address) const {
  const auto found = nic_by_address_.find(address);
  return found == nic_by_address_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Topology::Interface> Topology::FindInterface(const IpAddress& address) const {
  const auto found = interface_by_address_.find(address);
  return found == interface_by_address_.end() ? std::nullopt : std::optional(found->second);
}

std::span<const DirectedLink> Topology::Outgoing(NodeId node) const {
  const auto begin = static_cast<std::size_t>(outgoing_begin_[node.Index()]);
  const auto end = static_cast<std::size_t>(outgoing_begin_[node.Index() + 1]);
  return std::span(outgoing_).subspan(begin, end - begin);
}

NodeId Topology::From(DirectedLink direction) const {
  const Link& l = link(direction.link);
  return direction.forward ? l.a : l.b;
}

NodeId Topology::To(DirectedLink direction) const {
  const Link& l = link(direction.link);
  return direction.forward ? l.b : l.a;
}

std::string Topology::DirectionName(DirectedLink direction) const {
  return link(direction.link).id + ">" + node(To(direction)).id;
}

bool Topology::IsSwitchToSwitch(LinkId id) const {
  return node(link(id).a).kind == NodeKind::kSwitch && node(link(id).b).kind == NodeKind::kSwitch;
}

bool Topology::IsFabricLink(LinkId id) const {
  if (IsSwitchToSwitch(id)) return true;
  const Link& of = link(id);
  const bool from_a = HasSeveralUplinks(of.a);
  if (!from_a && !HasSeveralUplinks(of.b)) return false;
  const Node& nic = node(from_a ? of.a : of.b);
  const Node& other = node(from_a ? of.b : of.a);
  return other.kind == NodeKind::kSwitch && (other.host.empty() || other.host != nic.host);
}

bool Topology::LeavesHost(DirectedLink direction) const {
  const Node& to = node(To(direction));
  if (to.kind != NodeKind::kSwitch) return false;
  return to.host.empty() || to.host != node(From(direction)).host;
}

bool Topology::IsFlowEndpoint(NodeId id) const {
  if (node(id).kind == NodeKind::kNic) return true;
  if (node(id).kind != NodeKind::kCompute) return false;
  const auto directions = Outgoing(id);
  return std::any_of(directions.begin(), directions.end(),
                     [&](DirectedLink direction) { return LeavesHost(direction); });
}

bool Topology::SetLinkState(LinkId id, LinkState state) {
  ESPALIER_CHECK(id.value() >= 0 && id.Index() < links_.size(), "link={}", id.value());
  Link& changed = links_[id.Index()];
  if (changed.state == state) return false;
  changed.state = state;
  ++version_;
  return true;
}

}  // namespace espalier::fabric
