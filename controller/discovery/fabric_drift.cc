#include "controller/discovery/fabric_drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace espalier::discovery {
namespace {

// The ends of a link by which it is recognised: their addresses, and where one is unknown the name
// of the switch.
using LinkKey = std::pair<std::string, std::string>;

std::string KeyOf(const DiscoveredFabric& fabric, const DiscoveredLink::End& end) {
  return end.address.IsNone() ? fabric.switches[end.at].name : end.address.ToString();
}

std::string TextOf(const DiscoveredFabric& fabric, const DiscoveredLink& link) {
  return fmt::format("{} ({}) to {} ({})", fabric.switches[link.a.at].name,
                     link.a.address.ToString(), fabric.switches[link.b.at].name,
                     link.b.address.ToString());
}

std::map<LinkKey, const DiscoveredLink*> LinksOf(const DiscoveredFabric& fabric) {
  std::map<LinkKey, const DiscoveredLink*> links;
  for (const DiscoveredLink& link : fabric.links) {
    links.emplace(std::minmax(KeyOf(fabric, link.a), KeyOf(fabric, link.b)), &link);
  }
  return links;
}

bool ShareAnAddress(const DiscoveredSwitch& a, const DiscoveredSwitch& b) {
  return std::ranges::any_of(a.addresses, [&](const IpAddress& address) {
    return std::ranges::binary_search(b.addresses, address);
  });
}

}  // namespace

std::vector<std::string> FindDrift(const DiscoveredFabric& before,
                                   const std::vector<Endpoint>& nics_before,
                                   const DiscoveredFabric& after,
                                   const std::vector<Endpoint>& nics_after) {
  std::vector<std::string> drift;
  std::set<IpAddress> seen;
  for (const DiscoveredSwitch& each : after.switches) {
    if (!each.is_silent) seen.insert(each.addresses.begin(), each.addresses.end());
  }
  const auto old_links = LinksOf(before);
  const auto new_links = LinksOf(after);
  for (const auto& [key, link] : old_links) {
    const auto& addresses = before.switches[link->a.at].addresses;
    const bool is_seen =
        std::ranges::any_of(addresses, [&](const auto& address) { return seen.contains(address); });
    if (is_seen && !new_links.contains(key)) {
      drift.push_back(fmt::format("the link {} is gone", TextOf(before, *link)));
    }
  }
  for (const auto& [key, link] : new_links) {
    if (!old_links.contains(key)) {
      drift.push_back(fmt::format("the link {} is new", TextOf(after, *link)));
    }
  }
  std::map<IpAddress, std::size_t> old_nics;
  for (std::size_t i = 0; i < before.nics.size(); ++i) {
    old_nics.emplace(nics_before[i].address, i);
  }
  for (std::size_t i = 0; i < after.nics.size(); ++i) {
    const auto old = old_nics.find(nics_after[i].address);
    if (old == old_nics.end()) continue;
    const auto from = before.nics[old->second].at;
    const auto to = after.nics[i].at;
    if (!from || !to || ShareAnAddress(before.switches[*from], after.switches[*to])) continue;
    drift.push_back(fmt::format("{} ({}) is attached to {} instead of {}", nics_after[i].host,
                                nics_after[i].address.ToString(), after.switches[*to].name,
                                before.switches[*from].name));
  }
  return drift;
}

}  // namespace espalier::discovery
