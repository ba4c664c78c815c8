#pragma once

#include <string>
#include <string_view>

#include "agent/flows/flow_source.h"
#include "agent/local/espalier_agent.h"
#include "common/base/result.h"

namespace espalier::agent {

// Reads what a program says of a flow that it opens: bytes from a stranger. Fills all of a sample
// but its id, first_seen and progress. The job is empty where the program names none.
// Errors: kInvalidArgument, with the field that is wrong.
Result<FlowSample> ReadFlowDescription(const espalier_flow_desc& description);

// Names of jobs are printable ASCII and fit the local API, whoever gives them.
bool IsJobName(std::string_view name);

}  // namespace espalier::agent
