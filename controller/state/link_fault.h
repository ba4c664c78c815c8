#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::controller {

// What a test counted: packets of probe trains.
struct LossCount {
  std::int64_t lost = 0;
  std::int64_t sent = 0;
};

// Why a link has been taken out of use by a test of the hosts.
struct LinkFault {
  // kLossy: it loses packets, and flows avoid it as if it were drained. kDead: nothing passes it.
  enum class Kind : std::uint8_t { kLossy, kDead };
  Kind kind = Kind::kLossy;
  fabric::DirectedLink direction;
  LossCount test;
  LossCount siblings;   // of the same hosts, over links like this one
  std::string traffic;  // "", or the only traffic that is lost: "TCP", "UDP"
  std::size_t senders = 0;
  std::size_t receivers = 0;
  std::vector<std::string> suspected_by;  // what had drawn attention to it, such as "sweep", "h3"
  // Directions that explain the same losses, and that no path distinguishes from this one.
  std::vector<fabric::DirectedLink> alternatives;
};

// "leaf1>spine1 lost 31 of 400 probes, its siblings 0 of 1,600; 4 senders and 9 receivers agree";
// with alternatives it begins "leaf1>spine1 or spine1>leaf2 (no path distinguishes them) lost".
std::string DescribeFault(const fabric::Topology& topology, const LinkFault& fault);
// "leaf1>spine1": from where the direction leads to where.
std::string ArrowOf(const fabric::Topology& topology, fabric::DirectedLink direction);

}  // namespace espalier::controller
