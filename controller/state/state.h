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
#include "controller/paths/port_chooser.h"
#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/live_paths.h"
#include "controller/state/agent_registry.h"
#include "controller/state/event_history.h"
#include "controller/state/flow_table.h"
#include "controller/state/job_rounds.h"
#include "controller/state/plan_log.h"
#include "controller/store/store.h"

namespace espalier::controller {

// All that the controller knows. Owned and changed by the controller's loop thread alone; the
// parts of the controller (placement, publisher, operations) are functions on it.
//
// Invariants: `live` holds exactly the ways of flows that have a path, `owners` whose they are; a
// way's port is taken in `ports` exactly while it has one; `by_key` holds exactly the flows between
// different switches.
struct State {
  explicit State(fabric::Topology the_topology)
      : topology(std::move(the_topology)),
        paths(topology),
        view(topology, paths),
        live(view, [this](LivePaths::Way way) { return BytesInFlight(way); }),
        rounds(topology) {}
  State(const State&) = delete;  // its parts refer to each other
  State& operator=(const State&) = delete;

  fabric::Topology topology;
  fabric::PathTable paths;
  fabric::PathMap path_map;
  FabricView view;
  LivePaths live;
  struct WayOwner {
    FlowSlot slot;
    std::uint32_t index = 0;  // into Flow::ways
  };
  std::vector<WayOwner> owners;    // by LivePaths::Way
  std::uint64_t path_changes = 0;  // grows whenever any way takes, changes or leaves its path
  std::uint64_t fingerprint = 0;   // sum of PathFingerprint over all ways that have a path
  PortsInUse ports;
  FlowTable flows;
  JobRounds rounds;
  AgentRegistry agents;
  EventHistory history;
  PlanLog plans;
  std::uint64_t epoch = 0;             // of this controller
  std::uint64_t revision = 0;          // of the intents
  JobKey job_secret = JobKey::Draw();  // what jobs' keys are derived from; as stored
  Intents intents;
  std::set<fabric::LinkId> reported_down;      // by agents, of their own NICs
  std::set<fabric::LinkId> detected_down;      // by LinkMonitor
  std::set<fabric::LinkId> awaiting_operator;  // LinkMonitor::Waiting
  ReportedLinks feed_down;                     // what a feed said last, over restarts
  std::unordered_map<fabric::PortKey, std::vector<FlowSlot>> by_key;  // few each
  std::vector<FlowSlot> unplaced;  // became kNew since the last assignment

  std::span<const fabric::Path> PathsOf(const Flow& flow) {
    return paths.Between(flow.source_leaf, flow.destination_leaf);
  }
  std::optional<fabric::PathIndex> PathOf(const FlowWay& way) const {
    if (!way.way || live.PathOf(*way.way) < 0) return std::nullopt;
    return fabric::PathIndex(live.PathOf(*way.way));
  }
  // By the last report: of a flow, and of one of its ways, which carries an equal part.
  std::int64_t BytesInFlight(FlowSlot slot) const {
    return static_cast<std::int64_t>(flows.ActivityOf(slot).outstanding_bytes);
  }
  std::int64_t BytesInFlight(LivePaths::Way way) const;
  // An elephant with all that it needs: not where it crosses no fabric, or is not placed.
  bool HasPaths(const Flow& flow) const {
    return flow.tree_load == 0 && !flow.ways.empty() &&
           std::ranges::all_of(flow.ways,
                               [&](const FlowWay& way) { return PathOf(way).has_value(); });
  }
  // The switches on each of its paths: "spine0", "spine0+spine3", "" where it has none. As it is
  // now, or by indices into PathsOf.
  std::string Via(const Flow& flow);
  std::string Via(const Flow& flow, std::span<const std::int32_t> indices);
  std::string Via(fabric::NodeId source_leaf, fabric::NodeId destination_leaf,
                  std::span<const std::int32_t> indices);
  // Paths of flows over each direction of a link, by DirectedLink::Index. O(flows x hops).
  std::vector<std::int64_t> CountPaths();
  // What `live` has been told (or has done): this way was on the path `from` (kNoPath: on none) and
  // is on `to` from now on. While it has its owner.
  void NotePath(LivePaths::Way way, std::int32_t from, std::int32_t to);
  // PathFingerprint of a flow's way, were it on this path.
  std::uint64_t FingerprintOf(const Flow& flow, std::int32_t path) const;
  // Its agent is to be told anew.
  void MarkDirty(Flow& flow);
  // "h3:17": the agent and its number for the flow; names a flow for operators.
  std::string FlowName(const Flow& flow) const { return FlowName(flow.agent, flow.local); }
  std::string FlowName(AgentId agent, wire::LocalFlowId local) const {
    return agents.At(agent).name + ":" + std::to_string(local.value());
  }
};

}  // namespace espalier::controller
