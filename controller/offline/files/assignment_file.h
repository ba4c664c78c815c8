#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/files/flow_file.h"
#include "controller/routing/model/assignment.h"

namespace espalier::offline {

// LOCAL: both NICs are on one switch, so that no path is chosen. UNROUTABLE: no path is usable.
enum class AssignmentState { kRouted, kLocal, kUnroutable };
std::string_view AssignmentStateName(AssignmentState state);  // "ROUTED"

// One of a flow's paths, and the part of the flow that it carries.
struct AssignedPath {
  std::vector<std::uint32_t> links;  // DirectedLink::Index, from NIC to NIC
  std::int64_t share = 0;            // in 1 / kLoadUnit of the flow
};

struct AssignedFlow {
  AssignmentState state = AssignmentState::kUnroutable;
  std::uint32_t subflows = 1;
  std::vector<AssignedPath> paths;  // of a ROUTED flow; otherwise empty
};

// The outcome of `espalier assign`: the paths of a flow set.
struct AssignmentResult {
  std::string algorithm;
  std::vector<AssignedFlow> flows;  // by flow of the set
  controller::Load max_load;
  controller::Load lower_bound;
  controller::Proof proof = controller::Proof::kNone;
  // In a folded Clos, from the links above the leaves upwards: maximum load, and its lower bound.
  struct Tier {
    controller::Load max_load;
    controller::Load lower_bound;
  };
  std::vector<Tier> tiers;
  std::vector<double> job_rates_bps;  // by job: the rate of its slowest flow
  // Flows that the previous assignment routed differently, and their remaining bytes, if known.
  std::int64_t moved_flows = 0;
  std::int64_t moved_bytes = 0;
  double microseconds = 0;  // time of the assignment alone

  std::int64_t Count(AssignmentState state) const;
};

// The switches between the ends of a path: "spine7", or "agg1", "core2", "agg5".
std::vector<std::string> ViaOf(const AssignedPath& path, const fabric::Topology& topology);
// "1/2": the part of the flow that the path carries.
std::string ShareOf(const AssignedPath& path);
// The rate in Gbit/s, such as "33.333333333".
std::string RateText(double rate_bps);

// Formats an assignment as one JSON object (docs/formats.md).
std::string FormatAssignment(const AssignmentResult& plan, const FlowSet& flows,
                             const fabric::Topology& topology);

// A path of an earlier assignment, as far as Repair needs it.
struct PreviousPath {
  std::vector<std::string> links;  // ids, from NIC to NIC
  controller::Load share;          // above 0, at most 1
};
using PreviousAssignment = std::unordered_map<std::string, std::vector<PreviousPath>>;  // by flow

// Parses the output of FormatAssignment; flows without paths are left out.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<PreviousAssignment> ParsePreviousAssignment(std::string_view text,
                                                   std::string_view file_name);

}  // namespace espalier::offline
