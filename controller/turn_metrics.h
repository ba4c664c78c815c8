#pragma once

#include "common/base/metrics.h"

namespace espalier::controller {

// The metrics of turns, and of the state after a turn.
struct TurnMetrics {
  explicit TurnMetrics(Metrics& metrics);

  LatencyHistogram& turn_seconds;
  Counter& assignments;
  LatencyHistogram& assignment_seconds;
  Counter& flows_placed;
  Counter& flows_moved;
  Gauge& flows_open;
  Gauge& flows_unroutable;
  Gauge& flows_unsteered;
  Gauge& flows_without_path;
  Gauge& flows_on_dead_links;
  Gauge& flows_on_drained_links;
  Gauge& links_down;
  Gauge& hosts_without_agent;
  Gauge& health;
  Gauge& max_link_load;
  Gauge& max_link_load_bound;
  Gauge& worst_failure_load;
  Gauge& topology_version;
  Gauge& events_dropped;
};

}  // namespace espalier::controller
