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

// A flow that wants a path, from NIC to NIC.
struct FlowRecord {
  std::string id;
  std::uint32_t job = 0;  // into FlowSet::jobs
  fabric::NodeId source;
  fabric::NodeId destination;
  std::optional<std::int64_t> bytes;  // that it has yet to send, where known
};

struct FlowSet {
  std::vector<std::string> jobs;  // by first mention
  std::vector<FlowRecord> flows;  // in the order of the file
};

// Flows as comma-separated values (docs/formats.md) with the header flow,job,src,dst,bytes.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)" for a wrong header, fields that are
// missing or no numbers, nodes that are unknown or no NICs on one switch, a flow to its own
// source, a flow named twice, more than kMaxFlows of them. No flow at all is none.
Result<FlowSet> ParseFlows(std::string_view text, std::string_view file_name,
                           const fabric::Topology& topology, const fabric::PathTable& paths);

}  // namespace espalier::offline
