#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "common/fabric/topology_diff.h"
#include "common/files/json_writer.h"

namespace espalier::io {

// Read a topology file (docs/formats.md). Errors have the form "FILE:LINE:COL: what (remedy)".
Result<fabric::Topology> ParseTopology(std::string_view text, std::string_view file_name);
Result<fabric::Topology> ReadTopologyFile(const std::string& path);

// Returns text that ParseTopology reads back to the same topology.
std::string FormatTopology(const fabric::TopologySpec& spec);

// Writes the member "changes" of an object: a list of {"what", "change", "id", "detail"}.
void WriteTopologyChanges(JsonWriter& json, std::span<const fabric::TopologyChange> changes);

}  // namespace espalier::io
