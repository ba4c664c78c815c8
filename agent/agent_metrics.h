#pragma once

#include "common/base/metrics.h"

namespace espalier::agent {

// The agent's metrics of its messages, pushes and flows.
// Thread safety: the agent's loop thread.
struct AgentMetrics {
  explicit AgentMetrics(Metrics& metrics);

  Counter& reports_sent;
  Counter& reports_delayed;
  Counter& findings_dropped;
  Counter& collective_reports_dropped;
  Counter& pushes_applied;
  Counter& stale_pushes;
  Counter& incomplete_pushes;
  Counter& bad_messages;
  LatencyHistogram& report_latency;
  LatencyHistogram& apply_seconds;
  Gauge& flows_tracked;
  Counter& edges_reported;
  Gauge& flows_on_duty_cycle;
  Gauge& flows_keeping_rates;
  Gauge& flows_rate_limited;
  Gauge& flows_unsteered;
  Counter& rates_lifted;
  Gauge& state;
};

}  // namespace espalier::agent
