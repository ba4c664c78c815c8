#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/lab.h"
#include "deploy/lab/run_traffic.h"

// Compares what the controller decided with what the spines counted.
namespace espalier::demo {

// Source, destination and source port of the packets of one flow on one port.
using PortTriple = std::tuple<std::string, std::string, std::uint16_t>;

// The spines that counted packets of each port; with pods, the aggregation switches and cores.
std::map<PortTriple, std::set<std::string>> SpinesOf(const lab::Lab& lab,
                                                     std::span<const lab::FlowCount> counts);

struct SpineCheck {
  int steered_flows = 0;    // (flow, port) that an agent chose and that carried data
  int mismatches = 0;       // of these, counted at another switch than assigned, or at none
  int core_mismatches = 0;  // of these, at another core than assigned
};

// `counts` are those of the run. Errors: those of the controller's API.
Result<SpineCheck> CheckSpines(const lab::Lab& lab, const lab::TrafficResult& result,
                               std::span<const lab::FlowCount> counts, const LabDaemons& daemons);

}  // namespace espalier::demo
