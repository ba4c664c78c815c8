#include "controller/offline/imports/readers/containerlab_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "controller/offline/imports/facts/reading.h"
#include "controller/offline/imports/facts/yaml.h"

namespace espalier::imports {
namespace {

using fabric::SwitchRole;
using io::JsonValue;

// Ends that are not nodes, and kinds that may be hosts as well as switches.
constexpr std::array<std::string_view, 5> kMachine = {"host", "mgmt-net", "macvlan", "vxlan",
                                                      "dummy"};
constexpr std::array<std::string_view, 6> kOpenKinds = {
    "", "linux", "bridge", "ovs-bridge", "ext-container", "generic_vm"};

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) { cabling_.file = file; }

  Result<Cabling> Read(const JsonValue& root) {
    const JsonValue* topology = FindObject(root, "topology");
    if (topology == nullptr) {
      return FailAt(
          file_, PlaceOf(root),
          "no mapping \"topology\" (give a file of containerlab; netlab create writes one, "
          "clab.yml)");
    }
    if (const JsonValue* nodes = FindObject(*topology, "nodes")) ReadNodes(*nodes);
    const JsonValue* links = FindArray(*topology, "links");
    if (links == nullptr) {
      return FailAt(file_, PlaceOf(*topology), "no sequence \"links\" in the topology (add it)");
    }
    for (const JsonValue& link : links->items) {
      if (auto done = ReadLink(link); !done) return Propagate(done);
    }
    if (!left_out_.empty()) {
      cabling_.remarks.push_back(fmt::format("{}: left out, as they lead to the machine itself: {}",
                                             file_, NameSome(left_out_)));
    }
    return std::move(cabling_);
  }

 private:
  void ReadNodes(const JsonValue& nodes) {
    for (const auto& [name, node] : nodes.members) {
      DeviceFact fact;
      fact.name = name;
      fact.at = {node.key_line, node.key_column};
      const std::string kind = TextOf(node, "kind");
      const std::string group = TextOf(node, "group");
      if (std::ranges::find(kOpenKinds, kind) == kOpenKinds.end()) fact.kind = DeviceKind::kSwitch;
      if (group == "leaf") fact.role = SwitchRole::kLeaf;
      if (group == "spine") fact.role = SwitchRole::kSpine;
      if (group == "core" || group == "superspine") fact.role = SwitchRole::kCore;
      if (fact.role != SwitchRole::kNone) fact.kind = DeviceKind::kSwitch;
      if (group == "server" || group == "host") fact.kind = DeviceKind::kHost;
      if (fact.kind != DeviceKind::kUnknown) cabling_.devices.push_back(std::move(fact));
    }
  }

  Result<void> ReadLink(const JsonValue& link) {
    const JsonValue* endpoints = FindArray(link, "endpoints");
    if (endpoints == nullptr || endpoints->items.size() != 2) {
      return FailAt(file_, PlaceOf(endpoints == nullptr ? link : *endpoints),
                    "a link without two endpoints (write endpoints: [\"NODE:PORT\", "
                    "\"NODE:PORT\"])");
    }
    Cable cable;
    cable.at = PlaceOf(link);
    for (const auto& [item, end] :
         {std::pair(&endpoints->items[0], &cable.a), std::pair(&endpoints->items[1], &cable.b)}) {
      end->device = TextOf(*item, "node");
      end->port = TextOf(*item, "interface");
      const std::size_t colon = item->text.find(':');
      if (colon != std::string::npos) {
        end->device = item->text.substr(0, colon);
        end->port = item->text.substr(colon + 1);
      }
      if (!end->device.empty() && !end->port.empty()) continue;
      return FailAt(file_, PlaceOf(*item),
                    "an endpoint is not \"NODE:PORT\" (or a mapping of node and interface)");
    }
    for (const CableEnd* end : {&cable.a, &cable.b}) {
      if (std::ranges::find(kMachine, end->device) == kMachine.end()) continue;
      left_out_.push_back(fmt::format("{}:{} to {}:{}", cable.a.device, cable.a.port,
                                      cable.b.device, cable.b.port));
      return {};
    }
    if (cabling_.cables.size() == kMaxCables) {
      return FailAt(file_, PlaceOf(link), "more than 1000000 links (split the fabric)");
    }
    cabling_.cables.push_back(std::move(cable));
    return {};
  }

  std::string file_;
  std::vector<std::string> left_out_;
  Cabling cabling_;
};

}  // namespace

Result<Cabling> ReadContainerlabLinks(std::string_view text, std::string_view file) {
  const auto root = ParseYaml(text, file);
  if (!root) return tl::unexpected<Error>(root.error());
  return Reader(file).Read(*root);
}

}  // namespace espalier::imports
