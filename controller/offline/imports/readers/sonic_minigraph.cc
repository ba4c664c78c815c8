#include "controller/offline/imports/readers/sonic_minigraph.h"

#include <fmt/format.h>

#include <map>
#include <pugixml.hpp>
#include <set>
#include <string>
#include <utility>

#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

using fabric::SwitchRole;

constexpr std::int64_t kMegabit = 1'000'000;

// The name of an element without its namespace.
std::string_view LocalName(const pugi::xml_node& element) {
  const std::string_view name = element.name();
  return name.substr(name.find(':') + 1);
}

pugi::xml_node Child(const pugi::xml_node& parent, std::string_view name) {
  for (const pugi::xml_node& child : parent.children()) {
    if (LocalName(child) == name) return child;
  }
  return {};
}

std::string TextOf(const pugi::xml_node& parent, std::string_view name) {
  return Child(parent, name).child_value();
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : text_(text), file_(file), places_(text) {
    cabling_.file = file;
  }

  Result<Cabling> Read() {
    pugi::xml_document document;
    const auto parsed =
        document.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!parsed) return FailAt(file_, places_.Of(parsed.offset), parsed.description());
    const pugi::xml_node root = document.document_element();
    if (LocalName(root) != "DeviceMiniGraph") {
      return FailElement(root, "expected one <DeviceMiniGraph> element");
    }
    self_ = TextOf(root, "Hostname");
    if (self_.empty()) return FailElement(root, "the switch has no <Hostname> (add it)");
    DeviceFact& fact = cabling_.devices.emplace_back();
    fact.name = self_;
    fact.kind = DeviceKind::kSwitch;
    fact.at = PlaceOf(root);
    const pugi::xml_node physical = Child(root, "PngDec");
    if (auto done = ReadLinks(Child(physical, "DeviceInterfaceLinks")); !done) {
      return Propagate(done);
    }
    for (const pugi::xml_node& plane : Child(root, "DpgDec").children()) {
      if (auto done = ReadAddresses(plane); !done) return Propagate(done);
    }
    ReadTypes(Child(physical, "Devices"));
    if (auto done = ReadSessions(Child(Child(root, "CpgDec"), "PeeringSessions")); !done) {
      return Propagate(done);
    }
    for (auto& [name, port] : ports_) cabling_.ports.push_back(std::move(port));
    return std::move(cabling_);
  }

 private:
  Place PlaceOf(const pugi::xml_node& element) const { return places_.Of(element.offset_debug()); }
  tl::unexpected<Error> FailElement(const pugi::xml_node& element, std::string_view what) const {
    return FailAt(file_, PlaceOf(element), what);
  }

  Result<void> ReadLinks(const pugi::xml_node& links) {
    for (const pugi::xml_node& link : links.children()) {
      if (TextOf(link, "ElementType") != "DeviceInterfaceLink") continue;
      Cable cable;
      cable.at = PlaceOf(link);
      cable.a = {TextOf(link, "StartDevice"), TextOf(link, "StartPort"), false, {}};
      cable.b = {TextOf(link, "EndDevice"), TextOf(link, "EndPort"), false, {}};
      for (const CableEnd* end : {&cable.a, &cable.b}) {
        if (!end->device.empty() && !end->port.empty()) continue;
        return FailElement(link, "a link without device or port of an end (complete it)");
      }
      const std::string bandwidth = TextOf(link, "Bandwidth");
      if (!bandwidth.empty()) {
        const auto rate = ParseRateIn(bandwidth, kMegabit);
        if (!rate) return FailElement(Child(link, "Bandwidth"), rate.error().message);
        cable.rate = *rate;
      }
      if (cabling_.cables.size() == kMaxCables) return FailElement(link, "more than 1000000 links");
      for (const bool is_a : {true, false}) {
        const CableEnd& end = is_a ? cable.a : cable.b;
        if (end.device == self_) cable_of_[end.port] = {cabling_.cables.size(), is_a};
      }
      cabled_.insert(cable.a.device);
      cabled_.insert(cable.b.device);
      cabling_.cables.push_back(std::move(cable));
    }
    return {};
  }

  // Addresses of ports and loopbacks. Those of channels and VLANs belong to no single cable.
  Result<void> ReadAddresses(const pugi::xml_node& plane) {
    for (const pugi::xml_node& item : Child(plane, "LoopbackIPInterfaces").children()) {
      const auto address = ParseInterfaceAddress(TextOf(Child(item, "Prefix"), "IPPrefix"));
      if (!address) return FailElement(item, address.error().message);
      cabling_.devices.front().addresses.push_back(*address);
    }
    for (const pugi::xml_node& item : Child(plane, "IPInterfaces").children()) {
      const std::string name = TextOf(item, "AttachTo");
      const auto address = ParseInterfaceAddress(TextOf(item, "Prefix"));
      if (!address) return FailElement(item, address.error().message);
      if (!cable_of_.contains(name)) {
        cabling_.remarks.push_back(
            fmt::format("{}: {} of {} has no cable of its own: its address {} is left out",
                        At(file_, PlaceOf(item)), name, self_, address->ToString()));
        continue;
      }
      PortFact& port = ports_[name];
      if (port.name.empty()) port = {self_, name, "", {}, {}, PlaceOf(item)};
      port.addresses.push_back(*address);
      port_of_[*address] = name;
    }
    return {};
  }

  // <Device i:type="LeafRouter"><Hostname>...
  void ReadTypes(const pugi::xml_node& devices) {
    for (const pugi::xml_node& device : devices.children()) {
      std::string_view type;
      for (const pugi::xml_attribute& attribute : device.attributes()) {
        const std::string_view name = attribute.name();
        if (name == "type" || name.ends_with(":type")) type = attribute.value();
      }
      const SonicType found = SonicTypeOf(type);
      const std::string name = TextOf(device, "Hostname");
      const bool is_self = name == self_;
      if (found.kind == DeviceKind::kUnknown || (!is_self && !cabled_.contains(name))) continue;
      DeviceFact& fact = cabling_.devices.emplace_back();
      fact.name = name;
      fact.kind = found.kind;
      fact.role = found.role;
      fact.at = PlaceOf(device);
    }
  }

  Result<void> ReadSessions(const pugi::xml_node& sessions) {
    for (const pugi::xml_node& session : sessions.children()) {
      const bool starts_here = TextOf(session, "StartRouter") == self_;
      if (!starts_here && TextOf(session, "EndRouter") != self_) continue;
      const auto near =
          ParseInterfaceAddress(TextOf(session, starts_here ? "StartPeer" : "EndPeer"));
      const auto far =
          ParseInterfaceAddress(TextOf(session, starts_here ? "EndPeer" : "StartPeer"));
      if (!near || !far) return FailElement(session, (near ? far : near).error().message);
      const auto port = port_of_.find(*near);
      if (port == port_of_.end()) continue;
      const auto& [index, is_a] = cable_of_.at(port->second);
      Cable& cable = cabling_.cables[index];
      (is_a ? cable.b : cable.a).address = *far;
    }
    return {};
  }

  std::string_view text_;
  std::string file_;
  TextPlaces places_;
  std::string self_;
  std::map<std::string, std::pair<std::size_t, bool>> cable_of_;  // by own port; true: it is end a
  std::set<std::string> cabled_;                                  // devices
  std::map<std::string, PortFact> ports_;
  std::map<IpAddress, std::string> port_of_;
  Cabling cabling_;
};

}  // namespace

SonicType SonicTypeOf(std::string_view type) {
  if (type.ends_with("Server")) return {DeviceKind::kHost, SwitchRole::kNone};
  if (type.ends_with("ToRRouter")) return {DeviceKind::kSwitch, SwitchRole::kLeaf};
  if (type.ends_with("LeafRouter")) return {DeviceKind::kSwitch, SwitchRole::kSpine};
  if (type.ends_with("SpineRouter")) return {DeviceKind::kSwitch, SwitchRole::kCore};
  return {};
}

Result<Cabling> ReadSonicMinigraph(std::string_view text, std::string_view file) {
  return Reader(text, file).Read();
}

}  // namespace espalier::imports
