#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/base/event_loop.h"
#include "common/fabric/path_map.h"
#include "controller/state/flow_paths.h"
#include "controller/state/flow_table.h"
#include "proto/messages.h"

namespace espalier::controller {

// Names an edge as a flow is named. Agents count connections and their flows, and do not reach the
// numbers of edges.
struct EdgeName {
  AgentId agent;  // of the host that sends
  wire::LocalFlowId number;
  auto operator<=>(const EdgeName&) const = default;
};

// What an edge of a job's forest reserves: load on a path of the fabric that no assignment takes
// from it. No agent reports it or is told of it, as its rank's plan has the port.
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
  SubflowId subflow{};  // its place; EdgeReservations::Open gives it
};

// The edges of all plans in force that cross the fabric: each keeps its load in FlowPaths and its
// job's name in FlowTable from Open to Close.
//
// Thread safety: the controller's loop thread. The references must outlive it. Complexity: Open,
// Close and Find are O(log edges), CountOfAgent is O(1).
class EdgeReservations {
 public:
  EdgeReservations(FlowPaths& flow_paths, FlowTable& flows)
      : flow_paths_(flow_paths), flows_(flows) {}

  // Gives it a number that no edge has had, and its place. The port is the caller's to take.
  EdgeName Open(AgentId agent, EdgeReservation edge);
  // It must be open.
  void Close(const EdgeName& name);

  using ByName = std::map<EdgeName, EdgeReservation>;
  const ByName& all() const { return edges_; }
  const EdgeReservation* Find(const EdgeName& name) const {  // null: it is not open
    const auto found = edges_.find(name);
    return found == edges_.end() ? nullptr : &found->second;
  }
  std::size_t CountOfAgent(AgentId agent) const {
    return agent.Index() < counts_.size() ? counts_[agent.Index()] : 0;
  }

  // Aborts where an edge is not on its path, its port is free, or where others than edges reserve.
  // O(edges + ways): for tests.
  void CheckInvariants() const;

 private:
  FlowPaths& flow_paths_;
  FlowTable& flows_;
  ByName edges_;
  std::vector<std::size_t> counts_;  // of edges, by agent
  std::uint64_t made_ = 0;
};

}  // namespace espalier::controller
