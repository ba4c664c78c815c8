#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/users/job_key.h"
#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/intents/steering.h"
#include "controller/paths/port_chooser.h"
#include "controller/prediction/flow_phases.h"
#include "controller/rounds/job_rounds.h"
#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/fabric/load.h"
#include "controller/routing/online/online_assigner.h"
#include "controller/state/agent_registry.h"
#include "controller/state/edge_reservations.h"
#include "controller/state/event_history.h"
#include "controller/state/flows/connections.h"
#include "controller/state/flows/ended_flows.h"
#include "controller/state/flows/flow_decisions.h"
#include "controller/state/flows/flow_paths.h"
#include "controller/state/flows/flow_table.h"
#include "controller/state/flows/push_log.h"
#include "controller/state/flows/push_queue.h"
#include "controller/state/link_fault.h"

namespace espalier::controller {

// The hosts with a NIC at a switch.
std::set<std::string> HostsWithNics(const fabric::Topology& topology,
                                    const fabric::PathTable& paths);

// The state that the parts of the controller share: topology, flows, paths, ports, agents, events
// and intents. The controller's loop thread alone owns and changes it.
struct State {
  explicit State(fabric::Topology the_topology)
      : topology(std::move(the_topology)),
        paths(topology),
        view(topology, paths),
        flow_paths(view, flows),
        connections(topology, flows),
        edges(flow_paths, flows),
        rounds(topology),
        pushes(flows),
        decisions(topology, paths, flows, flow_paths, connections, pushes),
        steering_basis{HostRanks(HostsWithNics(topology, paths))} {}
  State(const State&) = delete;  // its members refer to each other
  State& operator=(const State&) = delete;

  fabric::Topology topology;
  fabric::PathTable paths;
  fabric::PathMap path_map;
  FabricView view;
  FlowTable flows;
  FlowPaths flow_paths;
  Connections connections;
  EdgeReservations edges;
  JobRounds rounds;
  AgentRegistry agents;
  PushQueue pushes;
  FlowDecisions decisions;
  struct SteeringBasis {
    const HostRanks ranks;
    bool observes = false;  // by the configuration; Controller writes it
  };
  SteeringBasis steering_basis;
  EventHistory history;
  PushLog push_log;
  EndedFlows ended_flows;
  // Links that tests have taken out of use: dead ones are DOWN, and flows avoid lossy ones.
  // LinkHealth writes it.
  std::map<fabric::LinkId, LinkFault> link_faults;
  // Feeds of link loads that have stopped reporting, and since when. BackgroundLoads writes it.
  std::map<std::string, TimePoint> silent_feeds;
  // What is not as it should be, although nothing was reported. The modules of placement/verify
  // write it.
  struct Notices {
    // Hosts that see a switch spray their packets, by source leaf and host, and that switch: their
    // flows are not steered.
    std::map<std::pair<fabric::NodeId, std::string>, fabric::NodeId> sprayed_hosts;
    // Flows that have waited too long (WaitingFlows), and one of them, by name.
    std::size_t late_flows = 0;
    std::string late_flow;
    // A load that is higher than it need be, and what a recomputation reaches.
    struct PoorSpread {
      Load load;
      Load possible;
    };
    std::optional<PoorSpread> poor_spread;
  };
  Notices notices;
  // The phases for which flows are planned. Bursts writes it.
  FlowPhases phases;
  // Maintenance windows whose beginning would cut off flows. OperationQueue writes it.
  std::set<std::string> held_windows;
  std::uint64_t epoch = 0;             // of this controller
  std::uint64_t revision = 0;          // of the intents
  JobKey job_secret = JobKey::Draw();  // the stored secret from which jobs' keys are derived
  Intents intents;

  // Which flows are steered by the present intents, or by others, which must outlive the result.
  SteeringRules Steering() const { return Steering(intents.steering); }
  SteeringRules Steering(const IntentById& steering) const {
    return {steering, steering_basis.ranks, steering_basis.observes};
  }
  // Whether a NIC's queue pairs choose its uplink by their port affinity, which neither a source
  // port nor an agent decides.
  bool IsUplinkByAffinity(fabric::NodeId nic) const {
    return topology.HasSeveralUplinks(nic) &&
           topology.node(nic).uplink == fabric::UplinkChoice::kAffinity;
  }
  std::span<const fabric::Path> PathsOf(const Flow& flow) const {
    return paths.Between(flow.source_leaf, flow.destination_leaf);
  }
  const fabric::Path& PathOf(const EdgeReservation& edge) const {
    return paths.Between(edge.source_leaf, edge.destination_leaf)[edge.path.Index()];
  }
  // Whether a switch sprays the packets of this flow, whose ends are known.
  bool IsSprayed(const Flow& flow) const {
    const auto& hosts = notices.sprayed_hosts;
    return !hosts.empty() &&
           hosts.contains({flow.source_leaf, fabric::HostOf(topology.node(flow.key.source))});
  }
  // By the last report.
  std::int64_t BytesInFlight(FlowSlot slot) const {
    return static_cast<std::int64_t>(flows.ActivityOf(slot).outstanding_bytes);
  }
  // Whether the flow crosses the fabric and each of its subflows has a path.
  bool HasPaths(const Flow& flow) const {
    return !flow.subflows.empty() &&
           std::ranges::all_of(flow.subflows, [&](const Subflow& subflow) {
             return flow_paths.PathOf(subflow).has_value();
           });
  }
  // Whether the flow adds load to the links of its paths: it has paths, and it is not parked.
  bool CountsAsLoad(const Flow& flow) const { return !flow.is_parked && HasPaths(flow); }
  // The switches on each path: "spine0", "spine0+spine3"; "" without a path. The flow's own paths,
  // or those with these indices into PathsOf.
  std::string Via(const Flow& flow) const;
  std::string Via(const Flow& flow, std::span<const std::int32_t> indices) const;
  std::string Via(fabric::NodeId source_leaf, fabric::NodeId destination_leaf,
                  std::span<const std::int32_t> indices) const;
  // The agent's flows as operators count them: those that it reported, and the edges over which its
  // host sends.
  std::size_t CountFlowsOf(AgentId agent) const {
    return flows.CountOfAgent(agent) + edges.CountOfAgent(agent);
  }
  // How many paths of flows and edges use each direction of each link, by DirectedLink::Index.
  // O(flows x hops).
  std::vector<std::int64_t> CountPaths() const;
  // The flow's name for operators, "h3:17": the agent, and the agent's number for the flow.
  std::string FlowName(const Flow& flow) const { return FlowName(flow.agent, flow.local); }
  std::string FlowName(AgentId agent, wire::LocalFlowId local) const {
    return agents.At(agent).name + ":" + std::to_string(local.value());
  }
};

}  // namespace espalier::controller
