#include "deploy/cli/doctor/neighbour_checks.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>

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
  const auto printed = view.run({"lldpcli", "-f", "json0", "show", "neighbors", "details"});
  if (!printed) {
    return findings.Skip("", printed.error().message,
                         "install lldpd, and let switches send LLDP: then the cable of each NIC is "
                         "known, also to `espalier topology import lldp`");
  }
  if (printed->size() > kMostAnswer) return findings.Skip("", "lldpcli prints too much");
  const auto cabling = imports::ReadLldpNeighbours(*printed, "lldpcli");
  if (!cabling) return findings.Skip("", cabling.error().message);
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

}  // namespace espalier::doctor
