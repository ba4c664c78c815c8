#include "controller/discovery/discovered_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

namespace espalier::discovery {
namespace {

using fabric::SwitchRole;

SwitchRole RoleOf(int tier) {
  switch (tier) {
    case 0:
      return SwitchRole::kNone;
    case 1:
      return SwitchRole::kLeaf;
    case 2:
      return SwitchRole::kSpine;
    default:
      return SwitchRole::kCore;
  }
}

std::string_view StartOfName(SwitchRole role) {
  switch (role) {
    case SwitchRole::kLeaf:
      return "leaf";
    case SwitchRole::kSpine:
      return "spine";
    case SwitchRole::kCore:
      return "core";
    case SwitchRole::kNone:
      break;
  }
  return "switch";
}

// Without dots, behind which names of devices have their domain.
std::string TextForName(const IpAddress& address) {
  std::string text = address.ToString();
  std::ranges::replace_if(
      text, [](char c) { return c == '.' || c == ':'; }, '-');
  return text;
}

}  // namespace

std::string NameSome(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    const bool is_last = i + 1 == names.size();
    text += (i == 0 ? "" : is_last ? " and " : ", ") + names[i];
  }
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

void ArrangeTiers(DiscoveredFabric& fabric, const std::set<SwitchIndex>& leaves) {
  std::vector<std::vector<SwitchIndex>> neighbours(fabric.switches.size());
  for (const DiscoveredLink& link : fabric.links) {
    neighbours[link.a.at].push_back(link.b.at);
    neighbours[link.b.at].push_back(link.a.at);
  }
  std::deque<SwitchIndex> queue(leaves.begin(), leaves.end());
  for (const SwitchIndex leaf : leaves) fabric.switches[leaf].tier = 1;
  while (!queue.empty()) {
    const SwitchIndex at = queue.front();
    queue.pop_front();
    for (const SwitchIndex next : neighbours[at]) {
      if (fabric.switches[next].tier != 0) continue;
      fabric.switches[next].tier = fabric.switches[at].tier + 1;
      queue.push_back(next);
    }
  }
  std::size_t unnamed = 0;
  for (DiscoveredSwitch& each : fabric.switches) {
    each.role = RoleOf(each.tier);
    each.name =
        each.addresses.empty() || each.is_silent
            ? fmt::format("unknown-{}", ++unnamed)
            : fmt::format("{}-{}", StartOfName(each.role), TextForName(each.addresses.front()));
  }
  for (DiscoveredLink& link : fabric.links) {
    if (fabric.switches[link.a.at].tier > fabric.switches[link.b.at].tier) {
      std::swap(link.a, link.b);
    }
  }
}

}  // namespace espalier::discovery
