#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/files/json_writer.h"
#include "controller/api/views/flow_statistics.h"
#include "controller/controller.h"
#include "controller/placement/loads/load_summary.h"

namespace espalier::controller {

// Writes the maximum load, the bound, and whether they are equal.
void WriteLoads(io::JsonWriter& json, const LoadSummary& loads);
// The health of the fabric and its flows in one word: "ok", "degraded" or "failing".
std::string HealthView(const Controller& controller);

// Parts of the controller's state as JSON objects for the operator's API.
std::string StatusView(const Controller& controller);
std::string AgentView(const Controller& controller, AgentId id);
// A pushed path: the flow, its port and the path that the port takes.
std::string PushView(const Controller& controller, const PushedPath& entry);
// One event.
std::string EventView(const Controller& controller, const HistoryEvent& event);
// The same for the live feed: the status with these statistics, one agent, some events.
std::string LiveStatus(const Controller& controller, const FlowStatistics& statistics,
                       const LoadSummary& loads);
std::string LiveAgent(const State& state, AgentId id);
std::string LiveEvents(const Controller& controller, std::span<const HistoryEvent> events);
// The intents that are in force.
std::string IntentsView(const Controller& controller);
// Every policy with its value, its configured value, and who has set it.
std::string PoliciesView(const Controller& controller);
std::string AuditView(const std::vector<AuditEntry>& entries);
std::string OutcomeView(const ActionOutcome& outcome, bool dry_run);

}  // namespace espalier::controller
