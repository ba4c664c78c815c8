#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/fabric/builders.h"
#include "deploy/simulation/scenario_file.h"

// A scenario that is read can be built: its fabric has a hash for every switch, its bursts are
// between different hosts of the fabric, and its actions are in order.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace simulation = espalier::simulation;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read_topology = [](const std::string&) {
    return espalier::Result<espalier::fabric::Topology>(
        *espalier::fabric::Topology::Build(*espalier::fabric::BuildFatTree({.k = 4})));
  };
  const auto scenario = simulation::ParseScenario(text, "s", read_topology);
  if (!scenario) {
    ESPALIER_CHECK(scenario.error().message.starts_with("s:"), "{}", scenario.error().message);
    return 0;
  }
  const auto fabric = simulation::FabricOf(*scenario, size);
  ESPALIER_CHECK(simulation::CheckFabric(fabric).has_value());
  const auto topology = espalier::fabric::Topology::Build(fabric);
  const auto hosts = static_cast<int>(simulation::ListNics(*topology).size());
  for (const simulation::PlayedJob& job : scenario->jobs) {
    ESPALIER_CHECK(!job.phases.empty() && job.iterations >= 1);
    for (const simulation::PlayedPhase& phase : job.phases) {
      ESPALIER_CHECK(phase.compute.count() >= 0);
      for (const simulation::Burst& burst : phase.bursts) {
        ESPALIER_CHECK(burst.source >= 0 && burst.source < hosts && burst.destination >= 0 &&
                       burst.destination < hosts && burst.source != burst.destination);
        ESPALIER_CHECK(burst.bytes > 0 && burst.bytes <= simulation::kMaxBurstBytes);
      }
    }
  }
  espalier::Duration last{};
  for (const simulation::Action& action : scenario->actions) {
    ESPALIER_CHECK(action.at >= last && action.at <= scenario->duration);
    const auto kind = action.kind;
    const bool needs_host =
        kind == simulation::ActionKind::kAgentDown || kind == simulation::ActionKind::kAgentUp ||
        kind == simulation::ActionKind::kPartition || kind == simulation::ActionKind::kHeal;
    ESPALIER_CHECK(action.host >= (needs_host ? 0 : -1) && action.host < hosts);
    last = action.at;
  }
  return 0;
}
