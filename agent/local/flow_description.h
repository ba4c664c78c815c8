#pragma once

#include <string>
#include <string_view>

#include "agent/flows/flow_source.h"
#include "agent/local/espalier_agent.h"
#include "common/base/result.h"

namespace espalier::agent {

// Reads a program's description of a flow; safe for any bytes. Fills a sample except its id,
// first_seen and progress. The job is empty if the program names none.
// Errors: kInvalidArgument, with the name of the wrong field.
Result<FlowSample> ReadFlowDescription(const espalier_flow_desc& description);

// True for an address that a NIC of a fabric can have: unicast, and neither loopback nor
// link-local.
bool IsFabricAddress(const IpAddress& address);

// True for the names that jobs may have: printable ASCII that fits the local API.
bool IsJobName(std::string_view name);

}  // namespace espalier::agent
