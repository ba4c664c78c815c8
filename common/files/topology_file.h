#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::io {

// Read a topology file (docs/formats.md). Errors have the form "FILE:LINE:COL: what (remedy)".
Result<fabric::Topology> ParseTopology(std::string_view text, std::string_view file_name);
Result<fabric::Topology> ReadTopologyFile(const std::string& path);

// Returns text that ParseTopology reads back to the same topology.
std::string FormatTopology(const fabric::TopologySpec& spec);

}  // namespace espalier::io
