#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/files/assignment_file.h"
#include "controller/offline/files/flow_file.h"
#include "controller/offline/simulation/simulator.h"

namespace espalier::offline {

// Flows and their paths in forms that packet simulators replay, as an independent check of them
// (docs/formats.md).

// One message from NIC to NIC, which a simulator replays as one connection.
struct ReplayFlow {
  struct Path {
    std::int64_t from_ns = 0;          // when the flow takes it
    std::vector<std::uint32_t> links;  // DirectedLink::Index, from NIC to NIC
    std::uint32_t weight = 1;          // beside the flow's other paths from then on
  };

  std::size_t number = 0;  // of the connection, from 1
  std::string id;
  std::string job;
  fabric::NodeId source;
  fabric::NodeId destination;
  std::int64_t start_ns = 0;
  std::int64_t bytes = 0;
  // Those that it takes at its start come first, then those that it moved to. None: it stays within
  // one switch.
  std::vector<Path> paths;
};

// The flows of an assignment, which all start at time 0. Flow i of the set has the number i + 1.
// UNROUTABLE flows are left out. Errors: kInvalidArgument if the bytes of a flow are not known.
Result<std::vector<ReplayFlow>> ReplayOf(const AssignmentResult& plan, const FlowSet& flows,
                                         std::string_view flow_file);

// Records a simulation (SimulationOptions::on_sending) as flows, one for each round of a
// connection: "JOB:source>destination:round".
class ReplayRecorder {
 public:
  static constexpr std::size_t kMostFlows = 1'000'000;

  // The workload must outlive it.
  explicit ReplayRecorder(const Workload& workload) : workload_(workload) {}

  void Record(const SendingFlow& sending);
  // Errors: kResourceExhausted if there were more than kMostFlows.
  Result<std::vector<ReplayFlow>> Take();

 private:
  struct Last {
    std::size_t flow = 0;  // of flows_
    std::size_t rounds = 0;
  };

  const Workload& workload_;
  std::unordered_map<std::uint32_t, Last> last_;  // by the number of the connection
  std::vector<ReplayFlow> flows_;
  bool has_overflowed_ = false;
};

// The connection matrix of htsim: its nodes are the NICs of the topology that are linked to a
// switch, numbered from 0 in file order. Start times are in picoseconds.
std::string FormatHtsim(std::span<const ReplayFlow> flows, const fabric::Topology& topology);
// The paths of these connections as comma-separated values: connection, flow, from_seconds, path,
// weight, and the switches from the source's leaf to the destination's, joined by "/". The weights
// of a connection's paths are whole numbers. Rows of a later time replace all rows before.
std::string FormatPathTable(std::span<const ReplayFlow> flows, const fabric::Topology& topology);
// One row for each path that a flow takes at its start, as comma-separated values for ns-3: flow,
// job, source, destination, start_seconds, bytes (of this path), path, and the links from NIC to
// NIC, joined by "/". The bytes of a flow's paths add up to the flow's.
std::string FormatNs3(std::span<const ReplayFlow> flows, const fabric::Topology& topology);

}  // namespace espalier::offline
