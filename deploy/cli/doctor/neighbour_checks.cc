#include "deploy/cli/doctor/neighbour_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "common/base/units.h"
#include "controller/offline/imports/readers/lldp_neighbours.h"
#include "deploy/cli/doctor/device_checks.h"

namespace espalier::doctor {
namespace {

constexpr std::size_t kMostAnswer = 4U << 20U;  // bytes of lldpcli

// The rate of an interface, and what the other end advertises if that differs. The first comes
// first, as some devices advertise what is not so.
std::string RatesOf(const HostView& view, const imports::Cable& cable) {
  const auto mbps = view.ReadNumber(fmt::format("/sys/class/net/{}/speed", cable.a.port));
  const std::string own =
      mbps && *mbps > 0 && *mbps < 100'000'000
          ? FormatGbps(BitsPerSecond{static_cast<std::int64_t>(*mbps) * 1'000'000})
          : "";
  const std::string far = cable.rate ? FormatGbps(*cable.rate) : "";
  if (own.empty() && far.empty()) return "rate unknown";
  if (own.empty()) return far + " Gbit/s by what it advertises";
  if (far.empty() || far == own) return own + " Gbit/s";
  return fmt::format("{} Gbit/s, though it advertises {}", own, far);
}

// What lldpd hears. Errors: it is not installed, does not run, or prints something else.
Result<imports::Cabling> Hear(const HostView& view) {
  auto printed = view.run({"lldpcli", "-f", "json0", "show", "neighbors", "details"});
  if (!printed) return Propagate(printed);
  if (printed->size() > kMostAnswer) {
    return Fail(ErrorCode::kResourceExhausted, "lldpcli prints too much");
  }
  return imports::ReadLldpNeighbours(*printed, "lldpcli");
}

// The name of a device without its domain, in small letters.
std::string PlainName(std::string_view name) {
  std::string plain(name.substr(0, name.find('.')));
  std::ranges::transform(plain, plain.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return plain;
}

// The topology as this check needs it.
struct Cables {
  std::map<IpAddress, std::string> nics;                // by address
  std::map<std::string, std::set<std::string>> linked;  // names of nodes, by node
  std::set<std::string> switches;                       // plain names
};

Cables ReadCables(const io::JsonValue& topology) {
  Cables cables;
  const io::JsonValue* const nodes = topology.Find("nodes");
  const io::JsonValue* const links = topology.Find("links");
  if (nodes == nullptr || links == nullptr) return cables;
  for (const io::JsonValue& node : nodes->items) {
    if (TextIn(node, "kind") == "SWITCH") cables.switches.insert(PlainName(TextIn(node, "id")));
    const io::JsonValue* const addresses = node.Find("addresses");
    if (addresses == nullptr) continue;
    for (const io::JsonValue& text : addresses->items) {
      if (const auto address = IpAddress::Parse(text.text)) {
        cables.nics[*address] = TextIn(node, "id");
      }
    }
  }
  for (const io::JsonValue& link : links->items) {
    cables.linked[TextIn(link, "a")].insert(TextIn(link, "b"));
    cables.linked[TextIn(link, "b")].insert(TextIn(link, "a"));
  }
  return cables;
}

// The interfaces that have a cable each: the members of a bond, else the interface.
std::set<std::string> CabledInterfaces(const HostView& view, const std::string& interface) {
  std::istringstream words(
      view.Read(fmt::format("/sys/class/net/{}/bonding/slaves", interface)).value_or(interface));
  std::set<std::string> members;
  for (std::string member; words >> member;) members.insert(member);
  return members;
}

}  // namespace

void CheckNeighbours(const HostView& view, Findings& findings) {
  const auto cabling = Hear(view);
  if (!cabling) {
    return findings.Skip("", cabling.error().message,
                         "install lldpd, and let switches send LLDP: then the cable of each NIC is "
                         "known, also to `espalier topology import lldp`");
  }
  std::set<std::string> heard;
  for (const imports::Cable& cable : cabling->cables) {
    heard.insert(cable.a.port);
    findings.Ok(cable.a.port,
                fmt::format("{}, port {}, {}", cable.b.device, cable.b.port, RatesOf(view, cable)));
  }
  bool is_complete = !heard.empty();
  for (const std::string& interface : RdmaInterfaces(view)) {
    for (const std::string& member : CabledInterfaces(view, interface)) {
      if (heard.contains(member)) continue;
      is_complete = true;
      findings.Skip(member, "one neighbour is not heard: none, or several behind a bridge",
                    "let the switch send LLDP; firmware may swallow it (ethtool --set-priv-flags: "
                    "disable-fw-lldp on for i40e, fw-lldp-agent off for ice)");
    }
  }
  if (!is_complete) findings.Skip("", "lldpd hears no neighbour");
}

void CheckCabling(const HostView& view, const io::JsonValue& topology, Findings& findings) {
  const auto interfaces = RdmaAddresses(view);
  if (interfaces.empty()) return findings.Skip("", "no interface with RoCEv2");
  const auto cabling = Hear(view);
  if (!cabling) return findings.Skip("", cabling.error().message);
  const Cables cables = ReadCables(topology);
  for (const auto& [interface, addresses] : interfaces) {
    const std::set<std::string> members = CabledInterfaces(view, interface);
    const auto nic = std::ranges::find_if(
        addresses, [&](const IpAddress& address) { return cables.nics.contains(address); });
    if (nic == addresses.end()) {
      findings.Fail(interface, "no NIC of the controller's topology has an address of it",
                    "add its address to its NIC in the topology file (`addresses`)");
      continue;
    }
    const std::string& id = cables.nics.at(*nic);
    const auto linked = cables.linked.find(id);
    std::set<std::string> expected;
    if (linked != cables.linked.end()) {
      for (const std::string& name : linked->second) expected.insert(PlainName(name));
    }
    for (const imports::Cable& cable : cabling->cables) {
      if (!members.contains(cable.a.port)) continue;
      const std::string found = fmt::format("{}: LLDP hears {}, the topology has {}", id,
                                            cable.b.device, fmt::join(expected, " and "));
      if (expected.contains(PlainName(cable.b.device))) {
        findings.Ok(cable.a.port, found);
      } else if (!cables.switches.contains(PlainName(cable.b.device))) {
        findings.Skip(cable.a.port, found + ", which names switches otherwise");
      } else {
        findings.Fail(cable.a.port, found,
                      "correct the cable, or the topology (`espalier topology discover --compare "
                      "FILE`): probes and paths of this NIC are wrong");
      }
    }
  }
}

}  // namespace espalier::doctor
