#include "controller/offline/imports/readers/sonic_config.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/offline/imports/facts/reading.h"
#include "controller/offline/imports/readers/sonic_minigraph.h"

namespace espalier::imports {
namespace {

using io::JsonValue;

constexpr std::int64_t kMegabit = 1'000'000;

Place KeyPlace(const JsonValue& member) { return {member.key_line, member.key_column}; }

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) { cabling_.file = file; }

  Result<Cabling> Read(const JsonValue& root) {
    root_ = &root;
    if (auto done = ReadSelf(); !done) return Propagate(done);
    if (auto done = ReadPorts(); !done) return Propagate(done);
    for (const std::string_view table :
         {"INTERFACE", "PORTCHANNEL_INTERFACE", "LOOPBACK_INTERFACE"}) {
      if (auto done = ReadAddresses(table); !done) return Propagate(done);
    }
    if (auto done = ReadNeighbours(); !done) return Propagate(done);
    if (auto done = ReadBgp(); !done) return Propagate(done);
    ReadNeighbourTypes();
    ReadHash();
    for (auto& [name, port] : ports_) cabling_.ports.push_back(std::move(port));
    return std::move(cabling_);
  }

 private:
  template <typename Visit>
  Result<void> ForEach(std::string_view table, const Visit& visit) {
    const JsonValue* object = root_->Find(table);
    if (object == nullptr || object->kind == JsonValue::Kind::kNull) return {};
    if (object->kind != JsonValue::Kind::kObject) {
      return FailAt(file_, PlaceOf(*object), fmt::format("{} is not an object", table));
    }
    for (const auto& [key, value] : object->members) {
      if (auto done = visit(key, value); !done) return done;
    }
    return {};
  }

  Result<void> ReadSelf() {
    const JsonValue* metadata = FindObject(*root_, "DEVICE_METADATA");
    const JsonValue* self = metadata == nullptr ? nullptr : FindObject(*metadata, "localhost");
    if (self == nullptr) {
      return FailAt(file_, PlaceOf(*root_),
                    "no DEVICE_METADATA with localhost (give a whole config_db.json)");
    }
    self_ = TextOf(*self, "hostname");
    if (self_.empty()) {
      return FailAt(file_, PlaceOf(*self), "the switch has no hostname (add it)");
    }
    DeviceFact& fact = cabling_.devices.emplace_back();
    fact.name = self_;
    fact.kind = DeviceKind::kSwitch;
    fact.role = SonicTypeOf(TextOf(*self, "type")).role;
    fact.at = PlaceOf(*self);
    return {};
  }

  Result<void> ReadPorts() {
    auto done =
        ForEach("PORT", [&](const std::string& name, const JsonValue& value) -> Result<void> {
          lists_ports_ = true;
          PortFact& port = ports_[name];
          port.device = self_;
          port.name = name;
          port.alias = TextOf(value, "alias");
          port.at = KeyPlace(value);
          const std::string speed = TextOf(value, "speed");
          if (speed.empty()) return {};
          const auto rate = ParseRateIn(speed, kMegabit);
          if (!rate) return FailAt(file_, PlaceOf(*value.Find("speed")), rate.error().message);
          port.rate = *rate;
          return {};
        });
    if (!done) return done;
    return ForEach("PORTCHANNEL_MEMBER", [&](const std::string& key, const JsonValue& value) {
      const std::size_t bar = key.find('|');
      if (bar != std::string::npos && HasPort(key.substr(bar + 1))) {
        members_[key.substr(0, bar)].push_back(key.substr(bar + 1));
        return Result<void>();
      }
      return Result<void>(
          FailAt(file_, KeyPlace(value),
                 fmt::format("member {} is not CHANNEL|PORT with a port of PORT", Quote(key))));
    });
  }

  // True without PORT, where nothing is known of ports.
  bool HasPort(const std::string& name) const { return !lists_ports_ || ports_.contains(name); }

  // "Ethernet4|172.16.0.0/31": an address of a port, a channel or the switch.
  Result<void> ReadAddresses(std::string_view table) {
    return ForEach(table, [&](const std::string& key, const JsonValue& value) -> Result<void> {
      const std::size_t bar = key.find('|');
      const std::string name = key.substr(0, bar);
      if (bar == std::string::npos) {
        if (TextOf(value, "ipv6_use_link_local_only") == "enable") unnumbered_.push_back(name);
        return {};
      }
      const auto address = ParseInterfaceAddress(std::string_view(key).substr(bar + 1));
      if (!address) return FailAt(file_, KeyPlace(value), address.error().message);
      return AddAddress(table, name, *address, KeyPlace(value));
    });
  }

  Result<void> AddAddress(std::string_view table, const std::string& name, const IpAddress& address,
                          Place at) {
    if (table == "LOOPBACK_INTERFACE") {
      cabling_.devices.front().addresses.push_back(address);
      return {};
    }
    std::string port = name;
    if (table == "PORTCHANNEL_INTERFACE") {
      const std::vector<std::string>& members = members_[name];
      if (members.size() != 1) {
        cabling_.remarks.push_back(fmt::format(
            "{}: {} of {} has {} members: its address {} belongs to no single cable and is left "
            "out",
            At(file_, at), name, self_, members.size(), address.ToString()));
        return {};
      }
      port = members.front();
    }
    if (!HasPort(port)) {
      return FailAt(
          file_, at,
          fmt::format("PORT has no {} (add the port or remove its address)", Quote(port)));
    }
    PortFact& fact = ports_[port];
    if (fact.name.empty()) {
      fact.device = self_;
      fact.name = port;
      fact.at = at;
    }
    fact.addresses.push_back(address);
    port_of_[address] = port;
    return {};
  }

  // Keyed by the own port, or by the neighbour with `local_port`.
  Result<void> ReadNeighbours() {
    return ForEach(
        "DEVICE_NEIGHBOR", [&](const std::string& key, const JsonValue& value) -> Result<void> {
          const std::string local = TextOf(value, "local_port");
          const std::string port = local.empty() ? key : local;
          std::string name = TextOf(value, "name");
          if (name.empty() && !local.empty()) name = key;
          if (name.empty()) {
            cabling_.remarks.push_back(
                fmt::format("{}: the neighbour of {} at {} has no name and is "
                            "left out",
                            At(file_, KeyPlace(value)), self_, port));
            return {};
          }
          if (!HasPort(port)) {
            return FailAt(
                file_, KeyPlace(value),
                fmt::format("PORT has no {} (add the port or remove its neighbour)", Quote(port)));
          }
          if (!cable_of_.try_emplace(port, cabling_.cables.size()).second) {
            return FailAt(file_, KeyPlace(value),
                          fmt::format("{} has a second neighbour (keep one)", Quote(port)));
          }
          Cable cable;
          cable.at = KeyPlace(value);
          cable.a = {self_, port, false, {}};
          cable.b = {name, TextOf(value, "port"), false, {}};
          cabling_.cables.push_back(std::move(cable));
          return {};
        });
  }

  // "172.16.0.1": {"name": "spine0", "local_addr": "172.16.0.0"}: the far end of the port with the
  // local address, if that is the address of one port.
  Result<void> ReadBgp() {
    return ForEach(
        "BGP_NEIGHBOR", [&](const std::string& key, const JsonValue& value) -> Result<void> {
          const std::string local = TextOf(value, "local_addr");
          const std::string name = TextOf(value, "name");
          if (local.empty()) return {};
          const std::size_t bar = key.find_last_of('|');  // "default|172.16.0.1" in newer releases
          const auto far = ParseInterfaceAddress(
              std::string_view(key).substr(bar == std::string::npos ? 0 : bar + 1));
          if (!far) return FailAt(file_, KeyPlace(value), far.error().message);
          const auto near = ParseInterfaceAddress(local);
          if (!near) return FailAt(file_, PlaceOf(value), near.error().message);
          const auto port = port_of_.find(*near);
          if (port == port_of_.end()) return {};
          const auto cable = cable_of_.find(port->second);
          if (cable != cable_of_.end()) {
            IpAddress& address = cabling_.cables[cable->second].b.address;
            if (address.IsNone()) address = *far;
            return {};
          }
          if (name.empty()) return {};
          cable_of_[port->second] = cabling_.cables.size();
          Cable made;
          made.at = KeyPlace(value);
          made.a = {self_, port->second, false, {}};
          made.b = {name, "", false, *far};
          cabling_.cables.push_back(std::move(made));
          return {};
        });
  }

  void ReadNeighbourTypes() {
    const JsonValue* table = FindObject(*root_, "DEVICE_NEIGHBOR_METADATA");
    if (table == nullptr) return;
    std::set<std::string> cabled;
    for (const Cable& cable : cabling_.cables) cabled.insert(cable.b.device);
    for (const auto& [name, value] : table->members) {
      const SonicType type = SonicTypeOf(TextOf(value, "type"));
      if (!cabled.contains(name) || type.kind == DeviceKind::kUnknown) continue;
      DeviceFact& fact = cabling_.devices.emplace_back();
      fact.name = name;
      fact.kind = type.kind;
      fact.role = type.role;
      fact.at = KeyPlace(value);
    }
  }

  void ReadHash() {
    if (!unnumbered_.empty()) {
      cabling_.remarks.push_back(
          fmt::format("{}: {} of {} {} unnumbered: probes are answered from a loopback", file_,
                      NameSome(unnumbered_), self_, unnumbered_.size() == 1 ? "is" : "are"));
    }
    const JsonValue* hash = FindObject(*root_, "SWITCH_HASH");
    const JsonValue* global = hash == nullptr ? nullptr : FindObject(*hash, "GLOBAL");
    const JsonValue* fields = global == nullptr ? nullptr : global->Find("ecmp_hash");
    if (fields == nullptr) return;
    std::string text = fields->text;
    for (const JsonValue& item : fields->items) text += item.text + ",";
    if (text.find("L4_SRC_PORT") != std::string::npos) return;
    cabling_.remarks.push_back(
        fmt::format("{}: {} does not hash source ports, so that none steers there (add L4_SRC_PORT "
                    "to SWITCH_HASH GLOBAL ecmp_hash)",
                    At(file_, PlaceOf(*fields)), self_));
  }

  std::string file_;
  const JsonValue* root_ = nullptr;
  std::string self_;
  std::map<std::string, PortFact> ports_;
  bool lists_ports_ = false;
  std::map<std::string, std::vector<std::string>> members_;  // ports by channel
  std::map<IpAddress, std::string> port_of_;
  std::map<std::string, std::size_t> cable_of_;  // index by own port
  std::vector<std::string> unnumbered_;
  Cabling cabling_;
};

}  // namespace

Result<Cabling> ReadSonicConfig(std::string_view text, std::string_view file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '<') return ReadSonicMinigraph(text, file);
  const auto root = ParseLargeJson(text, file);
  if (!root) return tl::unexpected<Error>(root.error());
  return Reader(file).Read(*root);
}

}  // namespace espalier::imports
