#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/offline/files/limits.h"

namespace espalier::offline {

// A flow from NIC to NIC that needs a path.
struct FlowRecord {
  std::string id;
  std::uint32_t job = 0;  // index into FlowSet::jobs
  fabric::NodeId source;
  fabric::NodeId destination;
  std::optional<std::int64_t> bytes;  // remaining bytes, if known
};

struct FlowSet {
  std::vector<std::string> jobs;  // by first mention
  std::vector<FlowRecord> flows;  // in the order of the file
};

// Parses flows as comma-separated values (docs/formats.md) with the header flow,job,src,dst,bytes.
// A file without flows is valid. Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)" for a
// wrong header, fields that are missing or not numbers, nodes that are unknown or not NICs on a
// switch (fabric::WhyUnattached), a flow to its own source, a flow that is named twice, and more
// than kMaxFlows flows.
Result<FlowSet> ParseFlows(std::string_view text, std::string_view file_name,
                           const fabric::Topology& topology, const fabric::PathTable& paths);

}  // namespace espalier::offline
