#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/files/assignment_file.h"
#include "controller/offline/files/flow_file.h"

namespace espalier::offline {

// An assignment in forms that packet simulators replay, as independent judges of it
// (docs/formats.md). All flows start at time 0. UNROUTABLE flows are left out.
//
// Complexity: O(paths x hops). Errors: kInvalidArgument if the bytes of a flow are not known.

// The connection matrix of htsim: its nodes are the NICs of the topology that are linked to a
// switch, numbered from 0 in file order; its connections are the flows, numbered from 1 in the
// order of the flow set.
Result<std::string> FormatHtsim(const AssignmentResult& plan, const FlowSet& flows,
                                const fabric::Topology& topology, std::string_view flow_file);
// The paths of these connections as comma-separated values: connection, flow, from_seconds, path,
// weight, and the switches from the source's leaf to the destination's, joined by "/". The weights
// of a connection's paths are whole numbers.
std::string FormatPathTable(const AssignmentResult& plan, const FlowSet& flows,
                            const fabric::Topology& topology);
// One row for each path of a flow, as comma-separated values for ns-3: flow, job, source,
// destination, start_seconds, bytes (of this path), path, and the links from NIC to NIC, joined by
// "/". The bytes of a flow's paths add up to the flow's.
Result<std::string> FormatNs3(const AssignmentResult& plan, const FlowSet& flows,
                              const fabric::Topology& topology, std::string_view flow_file);

}  // namespace espalier::offline
