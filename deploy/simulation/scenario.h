#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "common/sim/sim_network.h"
#include "deploy/simulation/job_player.h"

namespace espalier::simulation {

// What steers the flows.
enum class Mode {
  kEspalier,     // the controller, which counts what is busy
  kConnections,  // the controller, which counts every open connection
  kEcmp,         // nothing: there is neither a controller nor an agent
};
std::string_view ModeName(Mode mode);  // "espalier", "connections", "ecmp"

enum class ActionKind {
  // Of operators, on a link or node; kRecompute on none.
  kFail,
  kRestore,
  kDrain,
  kUndrain,
  kRecompute,
  // Faults of the fabric: on a link between switches or all such links of a switch; on a switch.
  kLinkDown,
  kLinkUp,
  kRehash,
  // Faults of processes and of the network between them, on a host; kMessages on a host or on all.
  kControllerDown,
  kControllerUp,
  kAgentDown,
  kAgentUp,
  kPartition,
  kHeal,
  kMessages,
};
std::string_view ActionName(ActionKind kind);  // "fail", "link-down", ...

// What happens at one time of a scenario.
struct Action {
  Duration at{};
  ActionKind kind = ActionKind::kRecompute;
  std::string link;             // one of these three, or none
  std::string node;             // of an operator's action, kLinkDown, kLinkUp and kRehash
  int host = -1;                // -1: none, or all
  std::uint64_t hash_seed = 0;  // of kRehash
  sim::LinkFaults faults;       // of kMessages
};

// A run of a simulated cluster.
struct Scenario {
  std::string name;
  Mode mode = Mode::kEspalier;
  Duration duration{};
  fabric::TopologySpec fabric;
  // The hash of the switches whose hash the topology does not name, with seeds from the run's seed.
  std::string hash = "crc32";
  bool controller_knows_hashes = true;
  sim::LinkFaults messages;
  std::vector<PlayedJob> jobs;
  std::vector<Action> actions;  // ascending by time
};

// The scenario's fabric in which every switch has a hash.
fabric::TopologySpec FabricOf(const Scenario& scenario, std::uint64_t seed);

}  // namespace espalier::simulation
