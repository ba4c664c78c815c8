#include "controller/offline/imports/combine.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "controller/offline/imports/contradictions.h"
#include "controller/offline/imports/discovered.h"
#include "controller/offline/imports/facts/reading.h"
#include "controller/offline/imports/joined.h"

namespace espalier::imports {
namespace {

using fabric::Link;
using fabric::Node;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::SwitchRole;

class Builder {
 public:
  Builder(Joined joined, const CombineOptions& options)
      : joined_(std::move(joined)), options_(options) {
    imported_.spec.name = options.name;
    imported_.remarks = std::move(joined_.remarks);
  }

  // Hosts whose inside is known must have a NIC for each cable.
  Result<void> CheckBoxes(Contradictions faults) {
    std::set<std::string> boxes;
    for (const Device& device : joined_.devices) {
      if (!device.host.empty() && device.host != device.name) {
        boxes.insert(ComparedName(device.host));
      }
    }
    is_box_.assign(joined_.devices.size(), false);
    for (std::size_t i = 0; i < joined_.devices.size(); ++i) {
      is_box_[i] = boxes.contains(ComparedName(joined_.devices[i].name));
    }
    for (const JoinedCable& cable : joined_.cables) {
      for (const JoinedEnd* end : {&cable.a, &cable.b}) {
        if (!is_box_[end->device]) continue;
        const std::string& box = joined_.devices[end->device].name;
        faults.Add(cable.at,
                   fmt::format("{} has no NIC {}: its NICs are {} (name one of them as the port)",
                               box, Quote(end->port), NameSome(NicsOf(box))));
      }
    }
    return faults.Finish();
  }

  Result<void> Choose() {
    auto kinds = ChooseKinds(joined_, options_.kinds);
    if (!kinds) return Propagate(kinds);
    imported_.assumptions = std::move(joined_.assumptions);
    for (std::string& said : *kinds) imported_.assumptions.push_back(std::move(said));
    for (std::string& said : ChooseRoles(joined_)) {
      imported_.assumptions.push_back(std::move(said));
    }
    return {};
  }

  Imported Build() {
    CountCables();
    for (std::size_t i = 0; i < joined_.devices.size(); ++i) AddNode(i);
    for (const JoinedCable& cable : joined_.cables) AddCable(cable);
    Report();
    return std::move(imported_);
  }

 private:
  std::vector<std::string> NicsOf(const std::string& box) const {
    std::vector<std::string> nics;
    for (const Device& device : joined_.devices) {
      const bool is_nic = device.kind == DeviceKind::kNic;
      if (is_nic && ComparedName(device.host) == ComparedName(box)) nics.push_back(device.name);
    }
    return nics;
  }

  void CountCables() {
    cables_at_.assign(joined_.devices.size(), 0);
    for (const JoinedCable& cable : joined_.cables) {
      ++cables_at_[cable.a.device];
      ++cables_at_[cable.b.device];
    }
  }

  NodeId Add(Node node) {
    imported_.spec.nodes.push_back(std::move(node));
    return NodeId(static_cast<std::int32_t>(imported_.spec.nodes.size() - 1));
  }

  void AddNode(std::size_t index) {
    const Device& device = joined_.devices[index];
    node_of_.emplace_back(0);
    if (cables_at_[index] == 0) {
      const bool is_known = device.kind == DeviceKind::kSwitch && device.host.empty();
      if (!is_box_[index]) uncabled_.push_back(device.name);
      if (!is_known) return;
    }
    Node node;
    node.id = device.name;
    node.addresses = device.addresses;
    node.host = device.host;
    node.device = device.rdma_device;
    switch (device.kind) {
      case DeviceKind::kSwitch:
        node.kind = NodeKind::kSwitch;
        if (device.host.empty()) node.role = device.role;
        break;
      case DeviceKind::kNic:
        node.kind = NodeKind::kNic;
        break;
      case DeviceKind::kHost:
      case DeviceKind::kUnknown:
        node.host = device.name;
        [[fallthrough]];
      case DeviceKind::kCompute:
        node.kind = NodeKind::kCompute;
        break;
    }
    node_of_.back() = Add(std::move(node));
  }

  bool IsSwitch(std::size_t device) const {
    return joined_.devices[device].kind == DeviceKind::kSwitch;
  }

  // The tier of a device, from hosts up.
  int TierOf(std::size_t device) const {
    return IsSwitch(device) ? 1 + static_cast<int>(joined_.devices[device].role) : 0;
  }

  void AddCable(const JoinedCable& cable) {
    const bool is_inner = !joined_.devices[cable.a.device].host.empty() &&
                          !joined_.devices[cable.b.device].host.empty();
    const bool turned = !is_inner && TierOf(cable.a.device) > TierOf(cable.b.device);
    const JoinedEnd& a = turned ? cable.b : cable.a;
    const JoinedEnd& b = turned ? cable.a : cable.b;
    Link link;
    link.rate = cable.rate.value_or(options_.rate);
    link.a = EndNode(a, link.rate);
    link.b = EndNode(b, link.rate);
    link.a_port = a.port;
    link.b_port = b.port;
    link.a_address = a.address;
    link.b_address = b.address;
    if (!cable.rate) unrated_.push_back(CableText(a, b));
    const bool between_switches = IsSwitch(a.device) && IsSwitch(b.device) && !is_inner;
    for (const JoinedEnd* end : {&a, &b}) {
      if (!between_switches) continue;
      ++switch_ends_;
      if (end->address.IsNone()) unaddressed_.push_back(EndText(*end));
    }
    imported_.spec.links.push_back(std::move(link));
  }

  std::string EndText(const JoinedEnd& end) const {
    const std::string& device = joined_.devices[end.device].name;
    return end.port.empty() ? device : device + ":" + end.port;
  }
  std::string CableText(const JoinedEnd& a, const JoinedEnd& b) const {
    return EndText(a) + " to " + EndText(b);
  }

  // The node at an end of a cable: for a host with several cables a NIC of its own.
  NodeId EndNode(const JoinedEnd& end, BitsPerSecond rate) {
    const Device& device = joined_.devices[end.device];
    const NodeId node = node_of_[end.device];
    const bool is_nic = device.kind != DeviceKind::kSwitch;
    if (device.kind != DeviceKind::kHost || cables_at_[end.device] == 1) {
      Node& own = imported_.spec.nodes[node.Index()];
      const bool has_address = std::ranges::find(own.addresses, end.address) != own.addresses.end();
      if (is_nic && !end.address.IsNone() && !has_address) own.addresses.push_back(end.address);
      return node;
    }
    if (split_.insert(end.device).second) divided_.push_back(device.name);
    Node nic;
    nic.kind = NodeKind::kNic;
    nic.host = device.name;
    nic.id =
        fmt::format("{}/{}", device.name,
                    end.port.empty() ? fmt::format("nic{}", nics_of_[end.device]++) : end.port);
    if (!end.address.IsNone()) nic.addresses.push_back(end.address);
    const NodeId added = Add(std::move(nic));
    Link inner;
    inner.a = node;
    inner.b = added;
    inner.rate = rate;
    imported_.spec.links.push_back(std::move(inner));
    return added;
  }

  void Report() {
    if (!unrated_.empty()) {
      imported_.assumptions.push_back(fmt::format(
          "{} cable{} {} Gbit/s, as no file gives a rate (write --gbps): {}", unrated_.size(),
          unrated_.size() == 1 ? " has" : "s have", FormatGbps(options_.rate), NameSome(unrated_)));
    }
    if (!divided_.empty()) {
      imported_.assumptions.push_back(fmt::format(
          "each port of a host with several cables is a NIC with an address of its own (no bond): "
          "{}",
          NameSome(divided_)));
    }
    std::vector<std::string> roles;
    for (const Node& node : imported_.spec.nodes) {
      const bool is_fabric = node.kind == NodeKind::kSwitch && node.host.empty();
      if (is_fabric && node.role == SwitchRole::kNone) roles.push_back(node.id);
    }
    ReportEndpoints();
    Miss(unaddressed_, switch_ends_,
         "ends of cables between switches have no address, by which answers to probes are "
         "recognised (add a file that has them, or set a_address and b_address)");
    Miss(roles, imported_.spec.nodes.size(),
         "nodes are switches without a role, as no host is known (add the cables of the hosts)");
    Miss(uncabled_, joined_.devices.size(), "devices have no cable (add a file that has them)");
  }

  void ReportEndpoints() {
    std::vector<bool> is_endpoint(imported_.spec.nodes.size());
    const auto& nodes = imported_.spec.nodes;
    for (const Link& link : imported_.spec.links) {
      for (const auto& [near, far] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
        const Node& other = nodes[far.Index()];
        const bool leaves = other.kind == NodeKind::kSwitch && other.host.empty();
        if (nodes[near.Index()].kind != NodeKind::kSwitch && leaves) {
          is_endpoint[near.Index()] = true;
        }
      }
    }
    std::vector<std::string> bare;
    std::size_t endpoints = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!is_endpoint[i] && nodes[i].kind != NodeKind::kNic) continue;
      ++endpoints;
      if (nodes[i].addresses.empty()) bare.push_back(nodes[i].id);
    }
    Miss(bare, endpoints,
         "NICs have no address, by which flows are recognised (add a file that has them, or set "
         "\"addresses\")");
  }

  void Miss(const std::vector<std::string>& names, std::size_t all, std::string_view what) {
    if (names.empty()) return;
    imported_.missing.push_back(
        fmt::format("{} of {} {}: {}", names.size(), all, what, NameSome(names)));
  }

  Joined joined_;
  const CombineOptions& options_;
  Imported imported_;
  std::vector<bool> is_box_;            // by device: its parts are devices
  std::vector<std::size_t> cables_at_;  // number by device
  std::vector<NodeId> node_of_;         // by device
  std::set<std::size_t> split_;         // hosts with a NIC for each cable
  std::map<std::size_t, int> nics_of_;  // number of NICs without a port, by host
  std::size_t switch_ends_ = 0;
  std::vector<std::string> unaddressed_;
  std::vector<std::string> unrated_;
  std::vector<std::string> divided_;
  std::vector<std::string> uncabled_;
};

}  // namespace

Result<Imported> Combine(std::span<const Cabling> sources, const CombineOptions& options) {
  std::vector<Cabling> renamed;
  if (std::ranges::any_of(sources, &Cabling::has_made_up_names)) {
    const SwitchNames names = NamesIn(sources);
    renamed.assign(sources.begin(), sources.end());
    for (Cabling& source : renamed) {
      if (source.has_made_up_names) AdoptNames(source, names);
    }
    sources = renamed;
  }
  auto joined = JoinSources(sources);
  if (!joined) return Propagate(joined);
  Builder builder(std::move(*joined), options);
  if (auto done = builder.CheckBoxes(Contradictions(sources)); !done) return Propagate(done);
  if (auto done = builder.Choose(); !done) return Propagate(done);
  Imported imported = builder.Build();
  if (imported.spec.nodes.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: no cable is in the file{} (give one that has cables)",
                            sources.empty() ? "" : sources.front().file,
                            sources.size() > 1 ? ", nor in the others" : ""));
  }
  // What is checked above cannot fail here, but names of different devices can collide.
  auto built = fabric::Topology::Build(imported.spec);
  if (!built) return tl::unexpected<Error>(std::move(built.error().error));
  return imported;
}

}  // namespace espalier::imports
