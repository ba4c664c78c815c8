#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/job_key.h"
#include "common/fabric/path_map.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/paths/port_chooser.h"
#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/online_assigner.h"
#include "controller/state/agent_registry.h"
#include "controller/state/edge_reservations.h"
#include "controller/state/event_history.h"
#include "controller/state/flow_paths.h"
#include "controller/state/flow_table.h"
#include "controller/state/job_rounds.h"
#include "controller/state/push_log.h"
#include "controller/state/push_queue.h"

namespace espalier::controller {

// All that the controller knows. Owned and changed by the controller's loop thread alone; the
// parts of the controller (placement, publisher, operations) are functions on it.
struct State {
  explicit State(fabric::Topology the_topology)
      : topology(std::move(the_topology)),
        paths(topology),
        view(topology, paths),
        flow_paths(view, flows),
        edges(flow_paths, flows),
        rounds(topology),
        pushes(flows) {}
  State(const State&) = delete;  // its parts refer to each other
  State& operator=(const State&) = delete;

  fabric::Topology topology;
  fabric::PathTable paths;
  fabric::PathMap path_map;
  FabricView view;
  FlowTable flows;
  FlowPaths flow_paths;
  EdgeReservations edges;
  JobRounds rounds;
  AgentRegistry agents;
  PushQueue pushes;
  EventHistory history;
  PushLog plans;
  std::uint64_t epoch = 0;             // of this controller
  std::uint64_t revision = 0;          // of the intents
  JobKey job_secret = JobKey::Draw();  // what jobs' keys are derived from; as stored
  Intents intents;

  std::span<const fabric::Path> PathsOf(const Flow& flow) const {
    return paths.Between(flow.source_leaf, flow.destination_leaf);
  }
  const fabric::Path& PathOf(const EdgeReservation& edge) const {
    return paths.Between(edge.source_leaf, edge.destination_leaf)[edge.path.Index()];
  }
  // By the last report.
  std::int64_t BytesInFlight(FlowSlot slot) const {
    return static_cast<std::int64_t>(flows.ActivityOf(slot).outstanding_bytes);
  }
  // An elephant with all that it needs: not where it crosses no fabric, or is not placed.
  bool HasPaths(const Flow& flow) const {
    return !flow.subflows.empty() &&
           std::ranges::all_of(flow.subflows, [&](const Subflow& subflow) {
             return flow_paths.PathOf(subflow).has_value();
           });
  }
  // The switches on each of its paths: "spine0", "spine0+spine3", "" where it has none. As it is
  // now, or by indices into PathsOf.
  std::string Via(const Flow& flow) const;
  std::string Via(const Flow& flow, std::span<const std::int32_t> indices) const;
  std::string Via(fabric::NodeId source_leaf, fabric::NodeId destination_leaf,
                  std::span<const std::int32_t> indices) const;
  // Of the agent, as operators see them: the flows that it reported, and the edges that its host
  // sends over.
  std::size_t CountFlowsOf(AgentId agent) const {
    return flows.CountOfAgent(agent) + edges.CountOfAgent(agent);
  }
  // Paths of flows and edges over each direction of a link, by DirectedLink::Index.
  // O(flows x hops).
  std::vector<std::int64_t> CountPaths() const;
  // "h3:17": the agent and its number for the flow; names a flow for operators.
  std::string FlowName(const Flow& flow) const { return FlowName(flow.agent, flow.local); }
  std::string FlowName(AgentId agent, wire::LocalFlowId local) const {
    return agents.At(agent).name + ":" + std::to_string(local.value());
  }
};

}  // namespace espalier::controller
