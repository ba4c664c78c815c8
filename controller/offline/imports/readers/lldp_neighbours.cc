#include "controller/offline/imports/readers/lldp_neighbours.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

using io::JsonValue;

// The first object of a list in json0, such as {"name": [{"value": "leaf0"}]}.
const JsonValue* First(const JsonValue& object, std::string_view key) {
  const JsonValue* list = FindArray(object, key);
  const bool has_one = list != nullptr && !list->items.empty() &&
                       list->items.front().kind == JsonValue::Kind::kObject;
  return has_one ? &list->items.front() : nullptr;
}

std::string FirstValue(const JsonValue& object, std::string_view key,
                       std::string_view member = "value") {
  const JsonValue* first = First(object, key);
  return first == nullptr ? "" : TextOf(*first, member);
}

// What the description of a chassis and its capabilities say. A host that forwards packets for its
// containers has the capabilities of a switch, so these prove nothing.
DeviceKind KindOf(const JsonValue& chassis) {
  constexpr std::array<std::string_view, 6> kSwitchSystems = {
      "SONiC", "Cumulus Linux",    "Arista Networks EOS",
      "NX-OS", "Juniper Networks", "Nokia SR Linux"};
  const std::string description = FirstValue(chassis, "descr");
  for (const std::string_view system : kSwitchSystems) {
    if (description.find(system) != std::string::npos) return DeviceKind::kSwitch;
  }
  const JsonValue* capabilities = FindArray(chassis, "capability");
  if (capabilities == nullptr) return DeviceKind::kUnknown;
  for (const JsonValue& capability : capabilities->items) {
    const JsonValue* enabled = capability.Find("enabled");
    if (enabled != nullptr && enabled->boolean && TextOf(capability, "type") == "Station") {
      return DeviceKind::kHost;
    }
  }
  return DeviceKind::kUnknown;
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) { cabling_.file = file; }

  Result<Cabling> Read(const JsonValue& root) {
    const JsonValue* lldp = root.Find("lldp");
    if (lldp == nullptr) {
      return FailAt(file_, PlaceOf(root),
                    "no member \"lldp\" (write the file with lldpcli -f json0 show neighbors "
                    "details)");
    }
    if (lldp->kind != JsonValue::Kind::kArray) return FailJson(*lldp);
    FindOwnName(root);
    for (const JsonValue& group : lldp->items) {
      const JsonValue* interfaces = group.Find("interface");
      if (interfaces == nullptr) continue;
      if (interfaces->kind != JsonValue::Kind::kArray) return FailJson(*interfaces);
      for (const JsonValue& interface : interfaces->items) {
        if (auto done = ReadInterface(interface); !done) return Propagate(done);
      }
    }
    AddCables();
    return std::move(cabling_);
  }

 private:
  tl::unexpected<Error> FailJson(const JsonValue& value) const {
    return FailAt(file_, PlaceOf(value),
                  "not a list, as in the format json (write the file with lldpcli -f json0)");
  }

  void FindOwnName(const JsonValue& root) {
    const JsonValue* local = First(root, "local-chassis");
    const JsonValue* chassis = local == nullptr ? nullptr : First(*local, "chassis");
    if (chassis != nullptr) own_name_ = FirstValue(*chassis, "name");
    if (!own_name_.empty()) {
      cabling_.devices.push_back(DeviceFact{.name = own_name_,
                                            .kind = KindOf(*chassis),
                                            .chassis_id = FirstValue(*chassis, "id"),
                                            .at = PlaceOf(*chassis)});
      return;
    }
    own_name_ = StemOf(file_);
    cabling_.devices.push_back(DeviceFact{.name = own_name_, .at = PlaceOf(root)});
    cabling_.remarks.push_back(fmt::format(
        "{}: these are the neighbours of {}, by the name of the file", file_, own_name_));
  }

  Result<void> ReadInterface(const JsonValue& interface) {
    const std::string own_port = TextOf(interface, "name");
    if (own_port.empty()) {
      return FailAt(file_, PlaceOf(interface), "the interface has no name (write the file again)");
    }
    if (++neighbours_[own_port] > 1 || found_.size() == kMaxCables) return {};
    const JsonValue* chassis = First(interface, "chassis");
    const JsonValue* port = First(interface, "port");
    if (chassis == nullptr || port == nullptr) {
      return FailAt(file_, PlaceOf(interface),
                    fmt::format("the neighbour of {} has no {} (write the file with lldpcli -f "
                                "json0 show neighbors details)",
                                Quote(own_port), chassis == nullptr ? "chassis" : "port"));
    }
    Cable cable;
    cable.at = PlaceOf(interface);
    cable.a.device = own_name_;
    cable.a.port = own_port;
    cable.b.device = FirstValue(*chassis, "name");
    if (cable.b.device.empty()) cable.b.device = FirstValue(*chassis, "id");
    if (cable.b.device.empty()) {
      return FailAt(file_, PlaceOf(*chassis),
                    fmt::format("the neighbour of {} has neither a name nor an id (set its host "
                                "name)",
                                Quote(own_port)));
    }
    if (auto done = ReadFarPort(*port, cable); !done) return done;
    const DeviceKind kind = KindOf(*chassis);
    found_.push_back({DeviceFact{.name = cable.b.device,
                                 .kind = kind,
                                 .chassis_id = FirstValue(*chassis, "id"),
                                 .at = PlaceOf(*chassis)},
                      std::move(cable)});
    return {};
  }

  Result<void> ReadFarPort(const JsonValue& port, Cable& cable) {
    const std::string type = FirstValue(port, "id", "type");
    const std::string id = FirstValue(port, "id");
    const std::string description = FirstValue(port, "descr");
    if (type == "mac" && !description.empty()) {
      cable.b.port = description;
    } else {
      cable.b.port = id;
      // SONiC sends the alias of a port as its local id.
      cable.b.is_alias = type == "local";
    }
    if (cable.b.port.empty()) {
      return FailAt(file_, PlaceOf(port),
                    fmt::format("the port of {} behind {} has no id", Quote(cable.b.device),
                                Quote(cable.a.port)));
    }
    if (type == "mac" && description.empty()) {
      cabling_.remarks.push_back(fmt::format(
          "{}: the port of {} behind {} has only a MAC address as its name (configure lldp "
          "portidsubtype ifname there)",
          At(file_, PlaceOf(port)), cable.b.device, cable.a.port));
    }
    // "100GbaseLR4 - ...": what the far end runs at.
    const JsonValue* negotiation = First(port, "auto-negotiation");
    const std::string current = negotiation == nullptr ? "" : FirstValue(*negotiation, "current");
    const std::size_t unit = current.find('G');
    if (unit != std::string::npos && unit > 0 && unit <= 6) {
      const auto rate = ParseGbps(std::string_view(current).substr(0, unit));
      if (rate) {
        cable.rate = *rate;
        cable.is_rate_weak = true;
      }
    }
    return {};
  }

  void AddCables() {
    std::vector<std::string> crowded;
    for (const auto& [port, count] : neighbours_) {
      if (count > 1) crowded.push_back(port);
    }
    if (!crowded.empty()) {
      cabling_.remarks.push_back(
          fmt::format("{}: {} of {} ha{} several neighbours, as behind a bridge, and {} left out",
                      file_, NameSome(crowded), own_name_, crowded.size() == 1 ? "s" : "ve",
                      crowded.size() == 1 ? "is" : "are"));
    }
    for (Found& found : found_) {
      if (neighbours_[found.cable.a.port] > 1) continue;
      cabling_.devices.push_back(std::move(found.device));
      cabling_.cables.push_back(std::move(found.cable));
    }
  }

  struct Found {
    DeviceFact device;
    Cable cable;
  };

  std::string file_;
  std::string own_name_;
  std::map<std::string, int> neighbours_;  // number by own port
  std::vector<Found> found_;               // with those that are left out
  Cabling cabling_;
};

}  // namespace

Result<Cabling> ReadLldpNeighbours(std::string_view text, std::string_view file) {
  const auto root = ParseLargeJson(text, file);
  if (!root) return tl::unexpected<Error>(root.error());
  return Reader(file).Read(*root);
}

}  // namespace espalier::imports
