#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/fabric/path_map.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/agent_registry.h"
#include "controller/event_history.h"
#include "controller/flow_table.h"
#include "controller/plan_log.h"
#include "controller/routing/link_loads.h"
#include "controller/routing/port_chooser.h"
#include "controller/store/intent_store.h"

namespace espalier::controller {

// All that the controller knows. Owned and changed by the controller's loop thread alone; the
// parts of the controller (placement, publisher, operations) are functions on it.
//
// Invariants: loads = the sum of the paths of all flows that have one; a flow's port is taken in
// `ports` exactly while it has one; `by_key` holds exactly the flows between different switches.
struct State {
  explicit State(fabric::Topology the_topology)
      : topology(std::move(the_topology)), paths(topology), loads(topology.links().size()) {}
  State(const State&) = delete;  // paths refers to topology
  State& operator=(const State&) = delete;

  fabric::Topology topology;
  fabric::PathTable paths;
  fabric::PathMap path_map;
  LinkLoads loads;
  PortsInUse ports;
  FlowTable flows;
  AgentRegistry agents;
  EventHistory history;
  PlanLog plans;
  Intents intents;
  std::set<fabric::LinkId> reported_down;  // by agents, of their own NICs
  std::map<fabric::PortKey, std::set<FlowSlot>> by_key;
  std::vector<FlowSlot> unplaced;  // became kNew since the last assignment

  std::span<const fabric::Path> PathsOf(const Flow& flow) {
    return paths.Between(flow.source_leaf, flow.destination_leaf);
  }
  // "h3:17": the agent and its number for the flow; names a flow for operators.
  std::string FlowName(const Flow& flow) const {
    return agents.At(flow.agent).name + ":" + std::to_string(flow.local.value());
  }
};

}  // namespace espalier::controller
