#include "agent/agent_metrics.h"

namespace espalier::agent {

AgentMetrics::AgentMetrics(Metrics& metrics)
    : reports_sent(
          metrics.MakeCounter("espalier_agent_flow_reports_sent_total", "Flow reports sent")),
      reports_delayed(metrics.MakeCounter(
          "espalier_agent_flow_reports_delayed_total",
          "Reports of flows that were put off, as programs cause more than the agent may send")),
      findings_dropped(metrics.MakeCounter(
          "espalier_agent_path_reports_dropped_total",
          "Verdicts on paths and answers to probes that were dropped for the same reason")),
      collective_reports_dropped(metrics.MakeCounter(
          "espalier_agent_collective_reports_dropped_total",
          "Reports of ranks on their collectives that were dropped for the same reason")),
      pushes_applied(metrics.MakeCounter("espalier_agent_pushes_applied_total",
                                         "Path pushes carried out (wholly or but for some flows)")),
      stale_pushes(metrics.MakeCounter("espalier_agent_stale_pushes_total",
                                       "Path pushes of a controller that was replaced")),
      incomplete_pushes(metrics.MakeCounter("espalier_agent_incomplete_pushes_total",
                                            "Path pushes whose predecessor never came")),
      bad_messages(metrics.MakeCounter("espalier_agent_bad_messages_total",
                                       "Messages that could not be read")),
      report_latency(
          metrics.MakeLatency("espalier_agent_announce_to_report_seconds",
                              "From the opening of an elephant until the report of it was sent")),
      apply_seconds(metrics.MakeLatency("espalier_agent_push_apply_seconds",
                                        "From a push's arrival until it was applied")),
      flows_tracked(
          metrics.MakeGauge("espalier_agent_flows_tracked", "Elephant flows that are open")),
      state(metrics.MakeGauge("espalier_agent_state",
                              "0 connecting, 1 synced, 2 orphan (controller silent)")) {}

}  // namespace espalier::agent
