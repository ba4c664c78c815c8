#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::offline {

// Parses a topology file of floodns (topology.properties): lines KEY=VALUE for num_nodes,
// num_undirected_edges, switches, switches_which_are_tors, servers, undirected_edges,
// link_data_rate_bit_per_ns and, optional, cores. Sets of nodes are set(0,1,...) or
// incl_range(0,95), edges 0-64 or 0:63-64:95 (each of the first with each of the second).
//
// In the order of their numbers, ToRs become tor0, tor1, ... (LEAF), switches next to a ToR
// spine0, ... (SPINE), others core0, ... (CORE), servers h0, ...
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<fabric::TopologySpec> ParseFloodnsTopology(std::string_view text,
                                                  std::string_view file_name);

}  // namespace espalier::offline
