#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/fabric/topology.h"
#include "controller/discovery/probe_evidence.h"

namespace espalier::discovery {

using SwitchIndex = std::size_t;  // into DiscoveredFabric::switches

struct DiscoveredSwitch {
  // Its role and its lowest address, such as "spine-172-16-0-1", or "unknown-1" for a switch that
  // answers no probe. Names are thus the same in each discovery, as long as addresses are.
  std::string name;
  int tier = 0;  // 1 for a switch with hosts; 0: no host is known to lead to it
  fabric::SwitchRole role = fabric::SwitchRole::kNone;
  std::vector<IpAddress> addresses;  // ascending
  bool is_silent = false;
};

struct DiscoveredLink {
  struct End {
    SwitchIndex at = 0;
    IpAddress address;  // none: no answer shows it
  };
  End a;  // in the lower tier
  End b;
};

// Where the NIC of an endpoint is attached.
struct AttachedNic {
  std::optional<SwitchIndex> at;  // none: unknown
  IpAddress switch_address;       // of the switch's end; none: unknown
  // One number for all NICs of which probes from one to another show that they share the switch.
  std::size_t group = 0;
};

// A switch with more next hops upwards is not believed, and not sampled further.
inline constexpr std::size_t kMostNextHops = 256;

// The choice among next hops upwards at one switch, as far as answers have shown it.
struct NextHopChoice {
  SwitchIndex at = 0;
  std::size_t next_hops = 0;     // parallel links count each
  std::size_t answers = 0;       // that show a next hop
  std::set<SwitchIndex> leaves;  // from which the answers come
};

// What answers to probes show of a fabric, and what they leave open.
struct DiscoveredFabric {
  std::vector<DiscoveredSwitch> switches;
  std::vector<DiscoveredLink> links;
  std::vector<AttachedNic> nics;  // by endpoint
  std::vector<NextHopChoice> choices;
  std::array<std::size_t, kMostHops> answering{};  // switches and hosts that answer, by TTL - 1
  // At least so likely, no next hop of equal share is missing at any switch (stop_rule.h).
  double confidence = 0;
  // Sentences with names: facts that no answer gives and how to supply them, and answers that
  // cannot all be true.
  std::vector<std::string> missing;
  std::vector<std::string> contradictions;
};

// "a, b and 3 more".
std::string NameSome(const std::vector<std::string>& names);

// Sets tier and role of each switch by its distance from the leaves, turns the links so that end a
// is in the lower tier, and names the switches. O((switches + links) log switches).
void ArrangeTiers(DiscoveredFabric& fabric, const std::set<SwitchIndex>& leaves);

}  // namespace espalier::discovery
