#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads the topology file of the simulator SimAI: "nodes gpus_per_server nvswitches switches links
// gpu_type", the numbers of all switches, NVSwitches first, and lines "from to 400Gbps latency
// error_rate". GPU n is the COMPUTE server<s>/gpu<g>, its links to fabric switches leave through
// the NIC server<s>/nic<g>.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadSimaiTopology(std::string_view text, std::string_view file);

}  // namespace espalier::imports
