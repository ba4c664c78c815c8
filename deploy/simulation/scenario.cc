#include "deploy/simulation/scenario.h"

#include "common/base/random.h"
#include "common/fabric/ecmp/ecmp_hash.h"

namespace espalier::simulation {
namespace {

// A seed for this hash, which is as wide as the hash allows.
std::uint64_t SeedFor(const std::string& hash, std::uint64_t random) {
  for (const std::uint64_t mask : {0x7FFF'FFFFULL, 0x7FFFULL, 0x7FULL, 0x7ULL, 0x1ULL}) {
    const std::uint64_t seed = (random & mask) | 1U;
    if (fabric::MakeEcmpHash({hash, seed})) return seed;
  }
  return 0;
}

}  // namespace

std::string_view ModeName(Mode mode) {
  switch (mode) {
    case Mode::kEspalier:
      return "espalier";
    case Mode::kConnections:
      return "connections";
    case Mode::kEcmp:
      return "ecmp";
  }
  return "";
}

std::string_view ActionName(ActionKind kind) {
  constexpr std::string_view kNames[] = {
      "fail",      "restore", "drain",           "undrain",       "recompute",  "link-down",
      "link-up",   "rehash",  "controller-down", "controller-up", "agent-down", "agent-up",
      "partition", "heal",    "messages"};
  return kNames[static_cast<std::size_t>(kind)];
}

fabric::TopologySpec FabricOf(const Scenario& scenario, std::uint64_t seed) {
  fabric::TopologySpec spec = scenario.fabric;
  Random random(Mix64(seed));
  for (fabric::Node& node : spec.nodes) {
    const bool is_switch = node.kind == fabric::NodeKind::kSwitch && node.host.empty();
    if (!is_switch && node.uplink != fabric::UplinkChoice::kHash) continue;
    const std::uint64_t drawn = random.Next();
    if (!node.ecmp) node.ecmp = {scenario.hash, SeedFor(scenario.hash, drawn)};
  }
  return spec;
}

}  // namespace espalier::simulation
