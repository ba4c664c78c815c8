#include "agent/agent_metrics.h"

namespace espalier::agent {

AgentMetrics::AgentMetrics(Metrics& metrics)
    : reports_sent(
          metrics.MakeCounter("espalier_agent_flow_reports_sent_total", "Flow reports sent")),
      reports_delayed(metrics.MakeCounter(
          "espalier_agent_flow_reports_delayed_total",
          "Flow reports that were delayed because the agent's allowance was used up")),
      findings_dropped(metrics.MakeCounter(
          "espalier_agent_path_reports_dropped_total",
          "Path verdicts and reports of probes and probe trains dropped because the agent's "
          "allowance was used up")),
      collective_reports_dropped(metrics.MakeCounter(
          "espalier_agent_collective_reports_dropped_total",
          "Collective reports dropped because the agent's allowance was used up")),
      pushes_applied(metrics.MakeCounter("espalier_agent_pushes_applied_total",
                                         "Path pushes applied, wholly or except for some flows")),
      stale_pushes(
          metrics.MakeCounter("espalier_agent_stale_pushes_total",
                              "Path pushes rejected because a newer controller is in charge")),
      incomplete_pushes(metrics.MakeCounter("espalier_agent_incomplete_pushes_total",
                                            "Path pushes rejected because an earlier generation or "
                                            "a rank plan is missing")),
      bad_messages(metrics.MakeCounter("espalier_agent_bad_messages_total",
                                       "Messages dropped because they could not be read")),
      report_latency(
          metrics.MakeLatency("espalier_agent_announce_to_report_seconds",
                              "Seconds from the opening of an elephant flow until the agent sent "
                              "its report")),
      apply_seconds(metrics.MakeLatency("espalier_agent_push_apply_seconds",
                                        "Seconds from the arrival of a push until it was "
                                        "applied")),
      flows_tracked(metrics.MakeGauge("espalier_agent_flows_tracked", "Open elephant flows")),
      edges_reported(metrics.MakeCounter(
          "espalier_agent_edges_reported_total",
          "Reports that a flow has become busy or idle, or both since the last report")),
      flows_on_duty_cycle(metrics.MakeGauge(
          "espalier_agent_flows_on_duty_cycle",
          "Flows that change between busy and idle too often, reported by their duty cycle")),
      flows_keeping_rates(metrics.MakeGauge(
          "espalier_agent_flows_keeping_rates",
          "Elephant flows whose program, kernel or device enforces a rate limit")),
      flows_rate_limited(metrics.MakeGauge("espalier_agent_flows_rate_limited",
                                           "Flows that have a rate limit at present")),
      flows_unsteered(metrics.MakeGauge(
          "espalier_agent_flows_unsteered",
          "Elephant flows on plain ECMP because operators have switched steering off for them")),
      rates_lifted(
          metrics.MakeCounter("espalier_agent_rates_lifted_total",
                              "Rate limits that were lifted because the controller was silent")),
      state(metrics.MakeGauge("espalier_agent_state",
                              "State of the agent: 0 connecting, 1 synced, 2 orphan (the "
                              "controller is silent)")) {}

}  // namespace espalier::agent
