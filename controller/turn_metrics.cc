#include "controller/turn_metrics.h"

namespace espalier::controller {

TurnMetrics::TurnMetrics(Metrics& metrics)
    : turn_seconds(
          metrics.MakeLatency("espalier_controller_turn_seconds",
                              "Duration of one turn: assignment, probe orders, ports, pushes")),
      assignments(metrics.MakeCounter("espalier_controller_assignments_total",
                                      "Times that new flows were assigned paths")),
      assignment_seconds(metrics.MakeLatency("espalier_controller_assignment_seconds",
                                             "Duration of one assignment of new flows")),
      flows_placed(metrics.MakeCounter("espalier_controller_flows_placed_total",
                                       "Flows that were assigned a path when new")),
      flows_moved(metrics.MakeCounter("espalier_controller_flows_moved_total",
                                      "Live flows that moved to make room for new ones")),
      flows_open(metrics.MakeGauge("espalier_controller_flows_open", "Elephant flows open now")),
      flows_unroutable(metrics.MakeGauge("espalier_controller_flows_unroutable",
                                         "Open flows without a usable path or a known end")),
      max_link_load(metrics.MakeGauge("espalier_controller_max_link_load",
                                      "Flows a unit link, on the most loaded one")),
      max_link_load_bound(metrics.MakeGauge("espalier_controller_max_link_load_bound",
                                            "The least that any assignment could have")),
      topology_version(metrics.MakeGauge("espalier_controller_topology_version",
                                         "Grows with every change of a link's state")),
      events_dropped(metrics.MakeGauge(
          "espalier_controller_events_dropped",
          "Events since the start that were not kept, as their source caused too many")) {}

}  // namespace espalier::controller
