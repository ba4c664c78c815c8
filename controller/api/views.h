#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/api/flow_statistics.h"
#include "controller/controller.h"
#include "controller/placement/load_summary.h"

namespace espalier::controller {

// The controller's state as JSON objects, for the operator's API.
std::string StatusView(const Controller& controller);
std::string AgentView(const Controller& controller, AgentId id);
// What was pushed: flow, port and the path that it takes.
std::string PushView(const Controller& controller, const PushedPath& entry);
// Something that has happened.
std::string EventView(const Controller& controller, const HistoryEvent& event);
// The same for the live feed: the status of flows that are counted, one agent, some events.
std::string LiveStatus(const Controller& controller, const FlowStatistics& statistics,
                       const LoadSummary& loads);
std::string LiveAgent(const State& state, AgentId id);
std::string LiveEvents(const Controller& controller, std::span<const HistoryEvent> events);
// Why a flow is on its path: what every path of its pair carries, and what the map knows.
// Errors: kNotFound.
Result<std::string> ExplainView(const Controller& controller, const std::string& flow);
// What operators have said and is in force.
std::string IntentsView(const Controller& controller);
// How flows are placed: every policy, what the configuration says, and who has set it.
std::string PoliciesView(const Controller& controller);
std::string AuditView(const std::vector<AuditEntry>& entries);
std::string OutcomeView(const ActionOutcome& outcome, bool dry_run);

}  // namespace espalier::controller
