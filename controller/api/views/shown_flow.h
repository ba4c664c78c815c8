#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/state/reach.h"
#include "controller/state/state.h"

namespace espalier::controller {

// A flow as operators see it at one moment: a flow that an agent has reported, or an edge of a
// job's forest, which is ROUTED and acknowledged while it reserves its path.
struct ShownFlow {
  struct Subflow {
    std::optional<fabric::PathIndex> path;  // the decided path, if any
    std::uint16_t port = 0;                 // pushed to the agent; 0: none
    bool is_learning = false;               // no port that leads to the path is known yet
    std::int32_t standby_path = kNoPath;    // where the host goes by itself if the path is dead
    std::uint16_t standby_port = 0;         // 0: none is known
    std::int64_t share = kLoadUnit;         // of the flow that it carries, in 1 / kLoadUnit
  };

  // What is known of the connection that the flow is one end of.
  struct Connection {
    OtherEnd other_end = OtherEnd::kUnknown;
    std::string opposite;          // the name of the other end's flow; "": unknown
    bool is_answering = false;     // the flow carries the acknowledgements of that flow only
    std::uint32_t timeout_us = 0;  // of its transport; 0: unknown
    std::uint32_t repetitions = 0;
  };

  AgentId agent;
  wire::LocalFlowId local;
  std::uint32_t job = 0;  // index into JobNames
  IpAddress source_address;
  IpAddress destination_address;
  std::uint16_t own_port = 0;
  std::uint8_t protocol = 0;
  FlowStatus status = FlowStatus::kRouted;
  wire::PathReason reason = wire::PathReason::kAssigned;
  DecisionOrigin origin = DecisionOrigin::kReactive;
  bool is_acknowledged = true;
  fabric::PortKey key;
  fabric::NodeId source_leaf;
  fabric::NodeId destination_leaf;
  std::uint64_t max_rate_bps = 0;  // 0: no limit
  FlowActivity activity;
  bool is_parked = false;   // idle: keeps its paths and ports, but adds no load
  bool is_planned = false;  // on the paths that were planned for its job's phases
  Connection connection;
  TimePoint started;
  Reach reach = Reach::kFine;
  std::vector<Subflow> subflows;  // empty: LOCAL, or the source or destination is unknown

  std::uint16_t first_port() const { return subflows.empty() ? 0 : subflows.front().port; }
};

// Whether its decided paths, or the links of its NICs, have this link.
bool UsesLink(const State& state, const ShownFlow& flow, fabric::LinkId link);

// The flow must be open. O(subflows x hops).
ShownFlow Show(const State& state, FlowSlot slot);
ShownFlow Show(const State& state, const EdgeName& name, const EdgeReservation& edge);

// Why a flow is not steered to a path and port that are known to fit, and what an operator can do
// about it, as sentences without a full stop. Both are empty for a flow that is as it should be.
struct FlowWait {
  std::string cause;
  std::string remedy;
};
// O(log flows + known ports of the flow's key).
FlowWait ExplainWait(const State& state, const ShownFlow& flow);

}  // namespace espalier::controller
