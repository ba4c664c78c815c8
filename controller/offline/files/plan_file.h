#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/files/flow_file.h"
#include "controller/routing/assignment.h"

namespace espalier::offline {

// LOCAL: both NICs are on one switch, no path is chosen. UNROUTABLE: no usable path.
enum class FlowState { kRouted, kLocal, kUnroutable };
std::string_view FlowStateName(FlowState state);  // "ROUTED"

// One of a flow's paths and what part of the flow it carries.
struct PlannedPath {
  std::vector<std::uint32_t> links;  // DirectedLink::Index, from NIC to NIC
  std::uint32_t ways = 1;            // of PlannedFlow::ways
};

struct PlannedFlow {
  FlowState state = FlowState::kUnroutable;
  std::uint32_t ways = 1;
  std::vector<PlannedPath> paths;  // of a ROUTED flow, else none
};

// The outcome of `espalier assign`: paths of a flow set.
struct Plan {
  std::string algorithm;
  std::vector<PlannedFlow> flows;  // by flow of the set
  controller::Load max_load;
  controller::Load lower_bound;
  std::vector<double> job_rates_bps;  // by job: its slowest flow's
  // Flows that a previous plan routed otherwise, and what they have yet to send as far as known.
  std::int64_t moved_flows = 0;
  std::int64_t moved_bytes = 0;
  double microseconds = 0;  // of the assignment alone

  std::int64_t Count(FlowState state) const;
};

// The switches between the ends of a path: "spine7", or "agg1", "core2", "agg5".
std::vector<std::string> ViaOf(const PlannedPath& path, const fabric::Topology& topology);
// "1/2": the part of the flow that the path carries.
std::string ShareOf(const PlannedPath& path, const PlannedFlow& flow);
// "33.333333333" Gbit/s.
std::string RateText(double rate_bps);

// One JSON object (docs/formats.md).
std::string FormatPlan(const Plan& plan, const FlowSet& flows, const fabric::Topology& topology);

// What an earlier plan says of a path, as far as the next one needs it.
struct PreviousPath {
  std::vector<std::string> links;  // ids, from NIC to NIC
  controller::Load share;          // above 0, at most 1
};
using PreviousPlan = std::unordered_map<std::string, std::vector<PreviousPath>>;  // by flow

// Reads what FormatPlan writes; flows without paths have none.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<PreviousPlan> ParsePlan(std::string_view text, std::string_view file_name);

}  // namespace espalier::offline
