#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/path_map.h"
#include "controller/state/flows/flow_paths.h"
#include "controller/state/flows/flow_table.h"
#include "proto/messages.h"

namespace espalier::controller {

// Names an edge the way flows are named. Edges are numbered from 2^63; agents number their flows
// from small numbers, so the two do not meet.
struct EdgeName {
  AgentId agent;  // the sending host's
  wire::LocalFlowId number;
  auto operator<=>(const EdgeName&) const = default;
};

// The load that an edge of a job's forest reserves on a path of the fabric, which assignments leave
// alone. Agents neither report edges nor receive them: the port is in the rank's plan.
struct EdgeReservation {
  std::uint32_t job = 0;  // index into JobNames
  fabric::PortKey key;
  std::uint16_t source_port = 0;
  std::uint8_t protocol = 0;
  fabric::NodeId source_leaf;
  fabric::NodeId destination_leaf;
  fabric::PathIndex path;
  std::int64_t load = 0;  // on each link of the path, in 1 / kLoadUnit of a flow
  DecisionOrigin origin = DecisionOrigin::kReactive;
  TimePoint started;
  SubflowId subflow{};  // its entry in FlowPaths; set by EdgeReservations::Open
};

// Holds the edges of all job plans in force that cross the fabric. From Open to Close, each edge
// holds its load in FlowPaths and keeps its job's name in FlowTable.
//
// Thread safety: the controller's loop thread. The references must outlive it. Complexity: Open,
// Close and Find are O(log edges), CountOfAgent is O(1).
class EdgeReservations {
 public:
  EdgeReservations(FlowPaths& flow_paths, FlowTable& flows)
      : flow_paths_(flow_paths), flows_(flows) {}

  // Reserves the edge's load and gives it a number that no edge has had. The caller takes the port.
  EdgeName Open(AgentId agent, EdgeReservation edge);
  // The edge must be open.
  void Close(const EdgeName& name);

  using ByName = std::map<EdgeName, EdgeReservation>;
  const ByName& all() const { return edges_; }
  const EdgeReservation* Find(const EdgeName& name) const {  // null: not open
    const auto found = edges_.find(name);
    return found == edges_.end() ? nullptr : &found->second;
  }
  std::size_t CountOfAgent(AgentId agent) const {
    return agent.Index() < counts_.size() ? counts_[agent.Index()] : 0;
  }

  // Aborts if an edge has left its path, its port is free, or a reservation belongs to no edge.
  // O(edges + subflows): for tests.
  void CheckInvariants() const;

 private:
  FlowPaths& flow_paths_;
  FlowTable& flows_;
  ByName edges_;
  std::vector<std::size_t> counts_;  // edges by agent
  std::uint64_t made_ = 0;
};

}  // namespace espalier::controller
