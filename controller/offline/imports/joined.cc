#include "controller/offline/imports/joined.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/base/enum_names.h"
#include "controller/offline/imports/contradictions.h"
#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

using fabric::SwitchRole;

constexpr std::size_t kNone = ~std::size_t{0};
constexpr std::size_t kMaxNameBytes = 200;

constexpr EnumNames<DeviceKind> kKindTexts({
    {DeviceKind::kUnknown, "unknown"},
    {DeviceKind::kSwitch, "a switch"},
    {DeviceKind::kHost, "a host"},
    {DeviceKind::kCompute, "a COMPUTE node"},
    {DeviceKind::kNic, "a NIC"},
});

std::string DomainOf(std::string_view name) {
  const std::size_t length = ComparedName(name).size();
  std::string domain(name.substr(length));
  for (char& c : domain) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return domain;
}

// A port that some file names.
struct Port {
  std::size_t device = 0;
  std::string name;
  std::optional<BitsPerSecond> rate;
  std::optional<Source> rate_at;
  IpAddress address;
  Source address_at;
  std::size_t cable = kNone;
};

// An end of a cable whose names are resolved. Without a port it is open: it keeps its address
// itself, and may have an alias that no file explains.
struct End {
  std::size_t device = 0;
  std::size_t port = kNone;
  IpAddress address;
  std::string alias;
};
struct Held {
  End a;
  End b;
  std::optional<BitsPerSecond> rate;
  bool is_rate_weak = false;
  Source rate_at;
  Source at;
  bool is_merged = false;  // into another
};

struct NameAt {
  std::string name;
  Source at;
};

class Joiner {
 public:
  explicit Joiner(std::span<const Cabling> sources) : sources_(sources), faults_(sources) {}

  Result<Joined> Join() {
    ForEachSource([&](std::size_t file, const Cabling& cabling) {
      for (const DeviceFact& fact : cabling.devices) AddDevice(file, fact);
    });
    // Aliases first, as other files may use them as names.
    for (const bool has_alias : {true, false}) {
      ForEachSource([&](std::size_t file, const Cabling& cabling) {
        for (const PortFact& fact : cabling.ports) {
          if (fact.alias.empty() != has_alias) AddPort(file, fact);
        }
      });
    }
    ForEachSource([&](std::size_t, const Cabling& cabling) {
      joined_.remarks.insert(joined_.remarks.end(), cabling.remarks.begin(), cabling.remarks.end());
    });
    // Ends with a port first, as their addresses name the ports of the others.
    ForEachSource([&](std::size_t file, const Cabling& cabling) {
      for (const Cable& cable : cabling.cables) {
        for (const CableEnd* end : {&cable.a, &cable.b}) {
          if (!end->port.empty() && !end->is_alias) ResolveEnd(*end, {file, cable.at});
        }
      }
    });
    ForEachSource([&](std::size_t file, const Cabling& cabling) {
      for (const Cable& cable : cabling.cables) AddCable(cable, {file, cable.at});
    });
    JoinOpenEnds();
    for (const Held& held : held_) {
      if (!held.is_merged) joined_.cables.push_back(Finish(held));
    }
    if (auto done = faults_.Finish(); !done) return Propagate(done);
    return std::move(joined_);
  }

 private:
  template <typename Visit>
  void ForEachSource(const Visit& visit) {
    for (std::size_t file = 0; file < sources_.size(); ++file) visit(file, sources_[file]);
  }

  void CheckName(const std::string& name, std::string_view what, const Source& source) {
    const bool has_control = std::ranges::any_of(
        name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    if (has_control) {
      faults_.Add(source, fmt::format("the name of {} {} has a control character (remove it)", what,
                                      Quote(name)));
    } else if (!IsUtf8(name)) {
      faults_.Add(source, fmt::format("the name of {} {} is not valid UTF-8 (save the file as "
                                      "UTF-8)",
                                      what, Quote(name)));
    } else if (name.size() > kMaxNameBytes) {
      faults_.Add(source, fmt::format("the name of {} {} is longer than {} bytes (shorten it)",
                                      what, Quote(name), kMaxNameBytes));
    }
  }

  std::size_t FindDevice(const std::string& name, const Source& source) {
    const auto written = by_written_name_.find(name);
    if (written != by_written_name_.end()) return written->second;
    const auto [found, is_new] = by_name_.try_emplace(ComparedName(name), joined_.devices.size());
    by_written_name_.emplace(name, found->second);
    if (is_new) {
      CheckName(name, "device", source);
      if (name.empty()) faults_.Add(source, "a device has no name (name it)");
      Device& device = joined_.devices.emplace_back();
      device.name = name;
      if (!DomainOf(name).empty()) with_domain_[found->second] = {name, source};
      return found->second;
    }
    const std::string domain = DomainOf(name);
    if (domain.empty()) return found->second;
    const auto [known, is_first] = with_domain_.try_emplace(found->second, NameAt{name, source});
    if (!is_first && DomainOf(known->second.name) != domain) {
      faults_.Add(
          source,
          fmt::format("{} differs from {} at {} in its domain only (if they are two "
                      "devices, rename one)",
                      Quote(name), Quote(known->second.name), faults_.At(known->second.at)));
    }
    return found->second;
  }

  void AddDevice(std::size_t file, const DeviceFact& fact) {
    const Source source{file, fact.at};
    Device& device = joined_.devices[FindDevice(fact.name, source)];
    if (fact.kind != DeviceKind::kUnknown) {
      if (device.kind != DeviceKind::kUnknown && device.kind != fact.kind) {
        faults_.Add(source,
                    fmt::format("{} is {}, but {} at {} (correct one)", device.name,
                                kKindTexts.NameOf(fact.kind), kKindTexts.NameOf(device.kind),
                                faults_.At(*device.kind_at)));
      } else if (!device.kind_at) {
        device.kind = fact.kind;
        device.kind_at = source;
      }
    }
    if (fact.role != SwitchRole::kNone) {
      if (device.role != SwitchRole::kNone && device.role != fact.role) {
        faults_.Add(source,
                    fmt::format("{} is {}, but {} at {} (correct one)", device.name,
                                fabric::SwitchRoleName(fact.role),
                                fabric::SwitchRoleName(device.role), faults_.At(*device.role_at)));
      } else if (!device.role_at) {
        device.role = fact.role;
        device.role_at = source;
      }
    }
    if (!fact.chassis_id.empty()) CheckChassis(device.name, fact.chassis_id, source);
    has_parts_ = has_parts_ || !fact.host.empty();
    if (device.host.empty()) device.host = fact.host;
    if (device.rdma_device.empty()) device.rdma_device = fact.rdma_device;
    for (const IpAddress& address : fact.addresses) {
      const auto [owner, is_new] = device_of_.try_emplace(address, device.name, source);
      if (is_new) {
        device.addresses.push_back(address);
      } else if (owner->second.first != device.name) {
        faults_.Add(source, fmt::format("{} has the address {}, but {} at {} has it (give each its "
                                        "own)",
                                        device.name, address.ToString(), owner->second.first,
                                        faults_.At(owner->second.second)));
      }
    }
  }

  void CheckChassis(const std::string& name, const std::string& id, const Source& source) {
    const auto [known, is_first] = chassis_of_.try_emplace(ComparedName(name), NameAt{id, source});
    if (is_first || known->second.name == id) return;
    faults_.Add(source, fmt::format("{} has the chassis id {}, but {} at {} (if they are two "
                                    "devices, rename one)",
                                    name, Quote(id), Quote(known->second.name),
                                    faults_.At(known->second.at)));
  }

  // The port with this name or alias; kNone if there is none.
  std::size_t FindPort(std::size_t device, const std::string& name, bool is_alias) const {
    const auto named = port_by_name_.find({device, name});
    const auto aliased = port_by_alias_.find({device, name});
    const bool prefers_alias = is_alias || named == port_by_name_.end();
    if (prefers_alias && aliased != port_by_alias_.end()) return aliased->second;
    return named == port_by_name_.end() ? kNone : named->second;
  }
  std::size_t FindOrAddPort(std::size_t device, const std::string& name, const Source& source) {
    const std::size_t known = FindPort(device, name, false);
    if (known != kNone) return known;
    CheckName(name, "port", source);
    Port& port = ports_.emplace_back();
    port.device = device;
    port.name = name;
    port_by_name_[{device, name}] = ports_.size() - 1;
    return ports_.size() - 1;
  }

  void AddPort(std::size_t file, const PortFact& fact) {
    const Source source{file, fact.at};
    const std::size_t device = FindDevice(fact.device, source);
    const std::size_t index = FindOrAddPort(device, fact.name, source);
    if (!fact.alias.empty() && fact.alias != fact.name) {
      const auto [known, is_new] = port_by_alias_.try_emplace({device, fact.alias}, index);
      if (!is_new && known->second != index) {
        faults_.Add(source, fmt::format("{} and {} have the alias {} (give each its own)",
                                        NameOf(index), NameOf(known->second), Quote(fact.alias)));
      }
    }
    Port& port = ports_[index];
    if (fact.rate) {
      if (port.rate && *port.rate != *fact.rate) {
        AddTwoRates(source, NameOf(index), *fact.rate, *port.rate, *port.rate_at);
      } else {
        port.rate = fact.rate;
        port.rate_at = source;
      }
    }
    for (const IpAddress& address : fact.addresses) SetAddress(index, address, source);
  }

  void AddTwoRates(const Source& source, const std::string& what, BitsPerSecond rate,
                   BitsPerSecond other, const Source& other_at) {
    faults_.Add(source, fmt::format("{} has {} Gbit/s, but {} at {} (correct one)", what,
                                    FormatGbps(rate), FormatGbps(other), faults_.At(other_at)));
  }

  std::string NameOf(std::size_t port) const {
    return joined_.devices[ports_[port].device].name + ":" + ports_[port].name;
  }

  // The first address of IPv4 counts; IPv6 only where there is none.
  void SetAddress(std::size_t index, const IpAddress& address, const Source& source) {
    Port& port = ports_[index];
    const auto [owner, is_new] = port_by_address_.try_emplace(address, index, source);
    if (!is_new && owner->second.first != index) {
      faults_.Add(source,
                  fmt::format("{} has the address {}, but {} at {} has it (give each its own)",
                              NameOf(index), address.ToString(), NameOf(owner->second.first),
                              faults_.At(owner->second.second)));
      return;
    }
    if (port.address.IsNone() || (address.IsV4() && !port.address.IsV4())) {
      port.address = address;
      port.address_at = source;
      return;
    }
    const bool differs = port.address != address && port.address.IsV4() == address.IsV4();
    if (differs && port.address_at.file != source.file) {
      faults_.Add(source, fmt::format("{} has the address {}, but {} at {} (correct one)",
                                      NameOf(index), address.ToString(), port.address.ToString(),
                                      faults_.At(port.address_at)));
    }
  }

  // An end of a host whose inside is known is its NIC of that name.
  End ResolveEnd(const CableEnd& named, const Source& source) {
    End end;
    end.device = FindDevice(named.device, source);
    if (has_parts_ && !named.port.empty()) {
      const auto part = by_name_.find(ComparedName(joined_.devices[end.device].name) + "/" +
                                      ComparedName(named.port));
      if (part != by_name_.end()) end.device = part->second;
    }
    end.address = named.address;
    if (!named.port.empty()) {
      end.port = named.is_alias ? FindPort(end.device, named.port, true)
                                : FindOrAddPort(end.device, named.port, source);
      if (end.port == kNone) end.alias = named.port;
      if (end.port != kNone && !named.address.IsNone()) {
        SetAddress(end.port, named.address, source);
      }
      return end;
    }
    const auto owner = port_by_address_.find(named.address);
    if (named.address.IsNone() || owner == port_by_address_.end()) return end;
    const std::size_t port = owner->second.first;
    if (ports_[port].device == end.device) {
      end.port = port;
    } else {
      faults_.Add(source, fmt::format("{} has the address {}, but {} at {} has it (correct one)",
                                      joined_.devices[end.device].name, named.address.ToString(),
                                      NameOf(port), faults_.At(owner->second.second)));
    }
    return end;
  }

  void AddCable(const Cable& cable, const Source& source) {
    Held held;
    held.a = ResolveEnd(cable.a, source);
    held.b = ResolveEnd(cable.b, source);
    held.rate = cable.rate;
    held.is_rate_weak = cable.is_rate_weak;
    held.rate_at = source;
    held.at = source;
    if (held.a.device == held.b.device) {
      faults_.Add(source,
                  fmt::format("the cable joins {} to itself (correct one end)", Text(held.a)));
      return;
    }
    const std::size_t at_a = CableAt(held.a);
    const std::size_t at_b = CableAt(held.b);
    const std::size_t known = at_a != kNone ? at_a : at_b;
    if (known == kNone) {
      for (const End* end : {&held.a, &held.b}) {
        if (end->port != kNone) ports_[end->port].cable = held_.size();
      }
      held_.push_back(held);
      return;
    }
    Merge(known, held, source);
  }

  std::size_t CableAt(const End& end) const {
    return end.port == kNone ? kNone : ports_[end.port].cable;
  }
  std::string Text(const End& end) const {
    if (end.port != kNone) return NameOf(end.port);
    const std::string& device = joined_.devices[end.device].name;
    return end.alias.empty() ? device : device + ":" + end.alias;
  }
  static bool MayBeOne(const End& x, const End& y) {
    return x.device == y.device && (x.port == y.port || x.port == kNone || y.port == kNone);
  }

  // `next` has a port that the cable `index` has: both must be one.
  void Merge(std::size_t index, const Held& next, const Source& source) {
    Held& held = held_[index];
    const bool is_same = MayBeOne(held.a, next.a) && MayBeOne(held.b, next.b);
    const bool is_turned = MayBeOne(held.a, next.b) && MayBeOne(held.b, next.a);
    if (!is_same && !is_turned) {
      const bool at_a = CableAt(next.a) == index;
      const End& shared = at_a ? next.a : next.b;
      const bool is_held_a = held.a.device == shared.device && held.a.port == shared.port;
      faults_.Add(source, fmt::format("{} leads to {}, but to {} at {} (correct one)", Text(shared),
                                      Text(at_a ? next.b : next.a),
                                      Text(is_held_a ? held.b : held.a), faults_.At(held.at)));
      return;
    }
    const bool is_second = is_same && !is_turned && source.file == held.at.file;
    if (is_second) {
      faults_.Add(source, fmt::format("the cable from {} to {} is listed at {}, too (remove one)",
                                      Text(next.a), Text(next.b), faults_.At(held.at)));
      return;
    }
    Complete(held.a, is_same ? next.a : next.b, index);
    Complete(held.b, is_same ? next.b : next.a, index);
    if (!next.rate) return;
    const bool yields = next.is_rate_weak && !held.is_rate_weak;
    if (!held.rate || (held.is_rate_weak && !next.is_rate_weak)) {
      held.rate = next.rate;
      held.is_rate_weak = next.is_rate_weak;
      held.rate_at = source;
    } else if (!yields && *held.rate != *next.rate) {
      AddTwoRates(source, fmt::format("the cable from {} to {}", Text(held.a), Text(held.b)),
                  *next.rate, *held.rate, held.rate_at);
    }
  }

  void Complete(End& held, const End& next, std::size_t index) {
    if (held.port == kNone && next.port != kNone) {
      held.port = next.port;
      ports_[next.port].cable = index;
    }
    if (held.address.IsNone()) held.address = next.address;
    if (held.alias.empty()) held.alias = next.alias;
  }

  JoinedCable Finish(const Held& held) {
    JoinedCable cable;
    cable.a = FinishEnd(held.a);
    cable.b = FinishEnd(held.b);
    cable.at = held.at;
    // Ports say what they are set to, which weighs more than what a neighbour advertises.
    std::optional<BitsPerSecond> rate = held.is_rate_weak ? std::nullopt : held.rate;
    Source rate_at = held.rate_at;
    for (const End* end : {&held.a, &held.b}) {
      if (end->port == kNone || !ports_[end->port].rate) continue;
      const Port& port = ports_[end->port];
      if (rate && *rate != *port.rate) {
        AddTwoRates(*port.rate_at, NameOf(end->port), *port.rate, *rate, rate_at);
      }
      rate = port.rate;
      rate_at = *port.rate_at;
    }
    cable.rate = rate ? rate : held.rate;
    return cable;
  }

  JoinedEnd FinishEnd(const End& end) const {
    JoinedEnd finished;
    finished.device = end.device;
    finished.address = end.address;
    finished.port = end.alias;
    if (end.port == kNone) return finished;
    finished.port = ports_[end.port].name;
    if (!ports_[end.port].address.IsNone()) finished.address = ports_[end.port].address;
    return finished;
  }

  // Cables between the same devices of which each names a port at another end may be one. They are
  // if there is one from each side.
  void JoinOpenEnds() {
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::size_t>> open;  // from, to
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const Held& held = held_[i];
      const bool is_a_open = held.a.port == kNone;
      if (is_a_open == (held.b.port == kNone)) continue;
      const End& named = is_a_open ? held.b : held.a;
      open[{named.device, (is_a_open ? held.a : held.b).device}].push_back(i);
    }
    std::vector<std::string> joined;
    for (const auto& [ends, reports] : open) {
      const auto back = open.find({ends.second, ends.first});
      if (back == open.end() || ends.first > ends.second) continue;
      const Held& first = held_[reports.front()];
      Held& second = held_[back->second.front()];
      if (reports.size() == 1 && back->second.size() == 1) {
        joined.push_back(fmt::format("{} to {}", Text(first.a), Text(first.b)));
        Merge(reports.front(), second, second.at);
        second.is_merged = true;
        continue;
      }
      faults_.Add(second.at,
                  fmt::format("the cable from {} to {} and the one at {} may be one, as each names "
                              "one port only (name both ports, or give a file with their aliases)",
                              Text(second.a), Text(second.b), faults_.At(first.at)));
    }
    if (joined.empty()) return;
    joined_.assumptions.push_back(fmt::format(
        "the reports of both ends, of which each names one port only, are one cable, as "
        "there is no other between the devices: {}",
        NameSome(joined)));
  }

  using PortKey = std::pair<std::size_t, std::string>;

  std::span<const Cabling> sources_;
  Contradictions faults_;
  Joined joined_;
  std::unordered_map<std::string, std::size_t> by_name_;  // device by compared name
  std::unordered_map<std::string, std::size_t> by_written_name_;
  std::map<std::size_t, NameAt> with_domain_;  // a name with a domain, by device
  std::map<std::string, NameAt> chassis_of_;   // the chassis id, by compared name
  bool has_parts_ = false;                     // some device is part of a box
  std::vector<Port> ports_;
  std::map<PortKey, std::size_t> port_by_name_;
  std::map<PortKey, std::size_t> port_by_alias_;
  std::map<IpAddress, std::pair<std::size_t, Source>> port_by_address_;
  std::map<IpAddress, std::pair<std::string, Source>> device_of_;  // of devices' own addresses
  std::vector<Held> held_;
};

}  // namespace

std::string ComparedName(std::string_view name) {
  const bool is_address = IpAddress::Parse(name).has_value();
  const std::size_t dot = is_address ? std::string_view::npos : name.find('.');
  // A part of a box has the name of its host before the slash, and its own behind it.
  const bool has_domain =
      dot != std::string_view::npos && dot > 0 && name.find('/') == std::string_view::npos;
  std::string compared(has_domain ? name.substr(0, dot) : name);
  for (char& c : compared) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return compared;
}

Result<Joined> JoinSources(std::span<const Cabling> sources) { return Joiner(sources).Join(); }

}  // namespace espalier::imports
