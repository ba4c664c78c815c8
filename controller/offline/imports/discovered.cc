#include "controller/offline/imports/discovered.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/offline/imports/facts/reading.h"
#include "controller/offline/imports/joined.h"

namespace espalier::imports {
namespace {

using fabric::Link;
using fabric::Node;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::SwitchRole;
using io::JsonValue;

constexpr std::string_view kWriteAgain =
    "write the file with espalier topology discover --facts FILE";

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {
    cabling_.file = file;
    cabling_.has_made_up_names = true;
  }

  Result<Cabling> Read(const JsonValue& root) {
    for (const std::string_view key : {"switches", "links", "nics"}) {
      if (FindArray(root, key) != nullptr) continue;
      return FailAt(file_, PlaceOf(root), fmt::format("no list \"{}\" ({})", key, kWriteAgain));
    }
    for (const JsonValue& link : FindArray(root, "links")->items) {
      if (auto done = ReadLink(link); !done) return Propagate(done);
    }
    for (const JsonValue& nic : FindArray(root, "nics")->items) {
      if (auto done = ReadNic(nic); !done) return Propagate(done);
    }
    for (const JsonValue& each : FindArray(root, "switches")->items) {
      if (auto done = ReadSwitch(each); !done) return Propagate(done);
    }
    for (const std::string_view key : {"missing", "contradictions"}) {
      const JsonValue* sentences = FindArray(root, key);
      if (sentences == nullptr) continue;
      for (const JsonValue& sentence : sentences->items) {
        const std::string text = sentence.kind == JsonValue::Kind::kString ? sentence.text : "";
        if (!text.empty()) cabling_.remarks.push_back(fmt::format("{}: {}", key, text));
      }
    }
    return std::move(cabling_);
  }

 private:
  // None if the text is empty.
  Result<IpAddress> ReadAddress(const JsonValue& object, std::string_view key) {
    const std::string text = TextOf(object, key);
    if (text.empty()) return IpAddress();
    const auto address = IpAddress::Parse(text);
    if (address) return *address;
    return FailAt(file_, PlaceOf(object),
                  fmt::format("{} is no address ({})", Quote(text), kWriteAgain));
  }

  Result<void> CheckObject(const JsonValue& value) {
    if (cabling_.cables.size() >= kMaxCables) {
      return FailAt(file_, PlaceOf(value), fmt::format("more than {} cables", kMaxCables));
    }
    if (value.kind == JsonValue::Kind::kObject) return {};
    return FailAt(file_, PlaceOf(value), fmt::format("not an object ({})", kWriteAgain));
  }

  Result<void> ReadSwitch(const JsonValue& value) {
    if (auto done = CheckObject(value); !done) return done;
    DeviceFact fact{.name = TextOf(value, "id"), .kind = DeviceKind::kSwitch, .at = PlaceOf(value)};
    const std::string role = TextOf(value, "role");
    for (const SwitchRole each : {SwitchRole::kLeaf, SwitchRole::kSpine, SwitchRole::kCore}) {
      if (fabric::SwitchRoleName(each) == role) fact.role = each;
    }
    const JsonValue* addresses = FindArray(value, "addresses");
    const std::size_t count = addresses == nullptr ? 0 : addresses->items.size();
    for (std::size_t i = 0; i < count; ++i) {
      const JsonValue& item = addresses->items[i];
      const auto address = IpAddress::Parse(item.kind == JsonValue::Kind::kString ? item.text : "");
      if (!address) {
        return FailAt(file_, PlaceOf(item), fmt::format("not an address ({})", kWriteAgain));
      }
      if (!of_cables_.contains(*address)) fact.addresses.push_back(*address);
    }
    cabling_.devices.push_back(std::move(fact));
    return {};
  }

  Result<void> ReadLink(const JsonValue& value) {
    if (auto done = CheckObject(value); !done) return done;
    Cable cable;
    cable.at = PlaceOf(value);
    for (const auto& [end, name, address] :
         {std::tuple(&cable.a, "a", "a_address"), std::tuple(&cable.b, "b", "b_address")}) {
      end->device = TextOf(value, name);
      const auto read = ReadAddress(value, address);
      if (!read) return tl::unexpected<Error>(read.error());
      end->address = *read;
      if (!read->IsNone()) of_cables_.insert(*read);
    }
    cabling_.cables.push_back(std::move(cable));
    return {};
  }

  Result<void> ReadNic(const JsonValue& value) {
    if (auto done = CheckObject(value); !done) return done;
    Cable cable;
    cable.at = PlaceOf(value);
    cable.a.device = TextOf(value, "host");
    cable.a.port = TextOf(value, "device");
    cable.b.device = TextOf(value, "switch");
    const auto address = ReadAddress(value, "address");
    if (!address) return tl::unexpected<Error>(address.error());
    cable.a.address = *address;
    const auto of_switch = ReadAddress(value, "switch_address");
    if (!of_switch) return tl::unexpected<Error>(of_switch.error());
    cable.b.address = *of_switch;
    if (cable.b.device.empty()) return {};  // a sentence in "missing" names it
    if (!of_switch->IsNone()) of_cables_.insert(*of_switch);
    const bool is_first =
        cable.a.port.empty() || ports_.emplace(cable.a.device, cable.a.port).second;
    if (!is_first) {
      cabling_.remarks.push_back(fmt::format(
          "{}: {} of {} has further addresses, of which {} is left out", At(file_, cable.at),
          Quote(cable.a.port), Quote(cable.a.device), address->ToString()));
      return {};
    }
    if (hosts_.insert(cable.a.device).second) {
      cabling_.devices.push_back(
          {.name = cable.a.device, .kind = DeviceKind::kHost, .at = cable.at});
    }
    cabling_.cables.push_back(std::move(cable));
    return {};
  }

  std::string file_;
  Cabling cabling_;
  std::set<IpAddress> of_cables_;
  std::set<std::pair<std::string, std::string>> ports_;  // of hosts
  std::set<std::string> hosts_;
};

template <typename Visit>
void ForEachAddress(const Cabling& cabling, const Visit& visit) {
  for (const DeviceFact& device : cabling.devices) {
    for (const IpAddress& address : device.addresses) visit(device.name, address);
  }
  for (const PortFact& port : cabling.ports) {
    for (const IpAddress& address : port.addresses) visit(port.device, address);
  }
  for (const Cable& cable : cabling.cables) {
    for (const CableEnd* end : {&cable.a, &cable.b}) {
      if (!end->address.IsNone()) visit(end->device, end->address);
    }
  }
}

}  // namespace

Result<Cabling> ReadDiscovery(std::string_view text, std::string_view file) {
  const auto root = ParseLargeJson(text, file);
  if (!root) return tl::unexpected<Error>(root.error());
  return Reader(file).Read(*root);
}

SwitchNames NamesIn(std::span<const Cabling> sources) {
  SwitchNames names;
  for (const Cabling& cabling : sources) {
    if (cabling.has_made_up_names) continue;
    ForEachAddress(cabling, [&](const std::string& device, const IpAddress& address) {
      names.by_address[address].insert(device);
    });
    for (const Cable& cable : cabling.cables) {
      for (const auto& [near, far] :
           {std::pair(&cable.a, &cable.b), std::pair(&cable.b, &cable.a)}) {
        if (near->port.empty()) continue;
        names.by_host_port[{ComparedName(near->device), near->port}].insert(far->device);
      }
    }
  }
  return names;
}

SwitchNames NamesIn(const fabric::Topology& topology) {
  SwitchNames names;
  const auto add = [&](NodeId node, const IpAddress& address) {
    const Node& at = topology.node(node);
    if (at.kind == NodeKind::kSwitch && !address.IsNone()) names.by_address[address].insert(at.id);
  };
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    for (const IpAddress& address : topology.node(node).addresses) add(node, address);
  }
  for (const Link& link : topology.links()) {
    add(link.a, link.a_address);
    add(link.b, link.b_address);
  }
  return names;
}

void AdoptNames(Cabling& found, const SwitchNames& names) {
  std::map<std::string, std::map<std::string, std::string>> given;  // names, and by what
  ForEachAddress(found, [&](const std::string& device, const IpAddress& address) {
    const auto known = names.by_address.find(address);
    if (known == names.by_address.end()) return;
    for (const std::string& name : known->second) given[device].emplace(name, address.ToString());
  });
  for (const Cable& cable : found.cables) {
    if (cable.a.port.empty()) continue;
    const auto known = names.by_host_port.find({ComparedName(cable.a.device), cable.a.port});
    if (known == names.by_host_port.end()) continue;
    for (const std::string& name : known->second) {
      given[cable.b.device].emplace(name, cable.a.device + ":" + cable.a.port);
    }
  }
  std::map<std::string, std::string> renamed;
  for (const DeviceFact& device : found.devices) {
    const auto known = given.find(device.name);
    if (device.kind != DeviceKind::kSwitch || known == given.end()) continue;
    if (known->second.size() == 1) {
      renamed[device.name] = known->second.begin()->first;
      continue;
    }
    std::vector<std::string> all;
    for (const auto& [name, by] : known->second) all.push_back(fmt::format("{} ({})", name, by));
    found.remarks.push_back(fmt::format(
        "{} is several switches by the files, and keeps its name: {}", device.name, NameSome(all)));
  }
  const auto rename = [&](std::string& name) {
    const auto to = renamed.find(name);
    if (to != renamed.end()) name = to->second;
  };
  for (DeviceFact& device : found.devices) rename(device.name);
  for (Cable& cable : found.cables) {
    rename(cable.a.device);
    rename(cable.b.device);
  }
}

namespace {

// Takes a discovered topology apart and puts it together with parts of a given one.
class Completion {
 public:
  Completion(const fabric::TopologySpec& found, const fabric::Topology& given)
      : found_(found), given_(given) {
    made_.name = given.name();
    made_.version = given.version();
  }

  fabric::TopologySpec Make() {
    FindSwitches();
    FindInsides();
    for (std::size_t i = 0; i < found_.nodes.size(); ++i) AddNode(i);
    AddInsides();
    for (const Link& link : found_.links) AddLink(link);
    return std::move(made_);
  }

 private:
  static NodeId IdOf(std::size_t index) { return NodeId(static_cast<std::int32_t>(index)); }

  // The given node of a found one: by its id, or by the addresses of a NIC or a switch.
  std::optional<NodeId> GivenOf(std::size_t index) const {
    const Node& node = found_.nodes[index];
    for (const IpAddress& address : node.addresses) {
      const auto nic = given_.FindNic(address);
      if (nic && fabric::HostOf(given_.node(*nic)) == fabric::HostOf(node)) return nic;
    }
    const auto named = given_.FindNode(node.id);
    if (named || node.kind != NodeKind::kSwitch || !switches_.contains(index)) return named;
    const std::set<NodeId>& owners = switches_.at(index);
    return owners.size() == 1 ? std::optional(*owners.begin()) : std::nullopt;
  }

  // The given switches that have addresses of each found one.
  void FindSwitches() {
    const auto add = [&](std::size_t index, const IpAddress& address) {
      const auto interface = given_.FindInterface(address);
      if (address.IsNone() || !interface) return;
      if (given_.node(interface->node).kind != NodeKind::kSwitch) return;
      switches_[index].insert(interface->node);
    };
    for (std::size_t i = 0; i < found_.nodes.size(); ++i) {
      for (const IpAddress& address : found_.nodes[i].addresses) add(i, address);
    }
    for (const Link& link : found_.links) {
      add(link.a.Index(), link.a_address);
      add(link.b.Index(), link.b_address);
    }
  }

  // Hosts whose found NICs are all of the given topology: their insides are as given.
  void FindInsides() {
    std::set<std::string> with_new;
    for (std::size_t i = 0; i < found_.nodes.size(); ++i) {
      const Node& node = found_.nodes[i];
      if (node.kind == NodeKind::kSwitch || node.addresses.empty()) continue;
      (GivenOf(i) ? hosts_ : with_new).insert(fabric::HostOf(node));
    }
    for (const std::string& host : with_new) hosts_.erase(host);
  }
  bool IsInside(const Node& node) const {
    return node.kind != NodeKind::kSwitch && hosts_.contains(fabric::HostOf(node));
  }

  // Found switches of one given one become one.
  void Add(std::size_t index, Node node) {
    const auto [known, is_new] = made_by_id_.try_emplace(node.id, IdOf(made_.nodes.size()));
    node_of_[index] = known->second;
    if (is_new) made_.nodes.push_back(std::move(node));
  }

  void AddNode(std::size_t index) {
    const Node& node = found_.nodes[index];
    const auto same = GivenOf(index);
    if (IsInside(node) && node.addresses.empty() && !same) return;  // made up for several NICs
    if (!same) return Add(index, node);
    Node completed = given_.node(*same);
    completed.role = node.role;
    for (const IpAddress& address : node.addresses) {
      const bool is_known =
          std::ranges::find(completed.addresses, address) != completed.addresses.end() ||
          given_.FindInterface(address).has_value();
      if (!is_known) completed.addresses.push_back(address);
    }
    Add(index, std::move(completed));
  }

  // GPUs and switches inside of hosts, and the links between them.
  void AddInsides() {
    for (const Node& node : given_.nodes()) {
      const bool is_part = !node.host.empty() && hosts_.contains(node.host);
      if (!is_part || made_by_id_.contains(node.id) || !node.addresses.empty()) continue;
      made_by_id_.emplace(node.id, IdOf(made_.nodes.size()));
      made_.nodes.push_back(node);
    }
    for (const Link& link : given_.links()) {
      const Node& a = given_.node(link.a);
      const Node& b = given_.node(link.b);
      const bool is_inner = !a.host.empty() && a.host == b.host && hosts_.contains(a.host);
      if (!is_inner || !made_by_id_.contains(a.id) || !made_by_id_.contains(b.id)) continue;
      Link inner = link;
      inner.a = made_by_id_.at(a.id);
      inner.b = made_by_id_.at(b.id);
      made_.links.push_back(std::move(inner));
    }
  }

  void AddLink(const Link& link) {
    const Node& a = found_.nodes[link.a.Index()];
    const Node& b = found_.nodes[link.b.Index()];
    if (IsInside(a) && IsInside(b)) return;
    Link completed = link;
    completed.a = node_of_.at(link.a.Index());
    completed.b = node_of_.at(link.b.Index());
    for (const IpAddress& address : {link.a_address, link.b_address}) {
      const auto interface = given_.FindInterface(address);
      if (address.IsNone() || !interface || !interface->link) continue;
      if (Complete(completed, given_.link(*interface->link))) {
        made_.links.push_back(std::move(completed));
        return;
      }
    }
    CompleteByEnds(completed);
    made_.links.push_back(std::move(completed));
  }

  // A link without known addresses is the only given one between its nodes, if it is.
  void CompleteByEnds(Link& link) {
    const auto a = given_.FindNode(made_.nodes[link.a.Index()].id);
    const auto b = given_.FindNode(made_.nodes[link.b.Index()].id);
    if (!a || !b) return;
    std::vector<fabric::LinkId> between;
    for (const fabric::DirectedLink out : given_.Outgoing(*a)) {
      if (given_.To(out) == *b) between.push_back(out.link);
    }
    if (between.size() == 1) Complete(link, given_.link(between.front()));
  }

  // False: the given link joins other nodes.
  bool Complete(Link& link, const Link& given) {
    const auto id = [&](NodeId node) -> const std::string& { return made_.nodes[node.Index()].id; };
    const bool is_turned = id(link.a) == given_.node(given.b).id;
    if (is_turned) {
      std::swap(link.a, link.b);
      std::swap(link.a_address, link.b_address);
    }
    if (id(link.a) != given_.node(given.a).id || id(link.b) != given_.node(given.b).id) {
      if (is_turned) {
        std::swap(link.a, link.b);
        std::swap(link.a_address, link.b_address);
      }
      return false;
    }
    link.id = used_.insert(given.id).second ? given.id : "";
    link.rate = given.rate;
    link.directed = given.directed;
    link.a_port = given.a_port;
    link.b_port = given.b_port;
    if (link.a_address.IsNone()) link.a_address = given.a_address;
    if (link.b_address.IsNone()) link.b_address = given.b_address;
    return true;
  }

  const fabric::TopologySpec& found_;
  const fabric::Topology& given_;
  fabric::TopologySpec made_;
  std::map<std::size_t, std::set<NodeId>> switches_;  // by index of a found one
  std::set<std::string> hosts_;
  std::map<std::size_t, NodeId> node_of_;  // by index of a found node
  std::map<std::string, NodeId> made_by_id_;
  std::set<std::string> used_;  // ids of given links
};

}  // namespace

fabric::TopologySpec CompleteFrom(const fabric::TopologySpec& found,
                                  const fabric::Topology& given) {
  return Completion(found, given).Make();
}

}  // namespace espalier::imports
