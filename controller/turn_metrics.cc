#include "controller/turn_metrics.h"

namespace espalier::controller {

TurnMetrics::TurnMetrics(Metrics& metrics)
    : turn_seconds(metrics.MakeLatency(
          "espalier_controller_turn_seconds",
          "Duration of one controller turn: assignment, probe orders, ports and pushes")),
      assignments(metrics.MakeCounter("espalier_controller_assignments_total",
                                      "Assignments of paths to one or more new flows")),
      assignment_seconds(metrics.MakeLatency("espalier_controller_assignment_seconds",
                                             "Duration of one assignment of paths to new flows")),
      flows_placed(metrics.MakeCounter("espalier_controller_flows_placed_total",
                                       "New flows that were assigned a path")),
      flows_moved(
          metrics.MakeCounter("espalier_controller_flows_moved_total",
                              "Flows in progress that were moved to make room for other flows")),
      flows_open(metrics.MakeGauge("espalier_controller_flows_open",
                                   "Open elephant flows and reserved forest edges")),
      flows_unroutable(metrics.MakeGauge(
          "espalier_controller_flows_unroutable",
          "Open flows without a usable path, or with an unknown source or destination")),
      flows_unsteered(metrics.MakeGauge(
          "espalier_controller_flows_unsteered",
          "Open flows on plain ECMP because operators have switched steering off for them")),
      flows_without_path(metrics.MakeGauge("espalier_controller_flows_without_path",
                                           "Open flows between whose leaves no path is usable")),
      flows_on_dead_links(metrics.MakeGauge(
          "espalier_controller_flows_on_dead_links",
          "Open flows and forest edges whose packets take a link that is down, such as that of a "
          "NIC")),
      flows_on_drained_links(
          metrics.MakeGauge("espalier_controller_flows_on_drained_links",
                            "Open flows and forest edges whose packets still take a drained link")),
      links_down(metrics.MakeGauge("espalier_controller_links_down",
                                   "Links of the topology that are down, for whatever reason")),
      hosts_without_agent(metrics.MakeGauge("espalier_controller_hosts_without_agent",
                                            "Hosts of the topology whose agent is not connected")),
      health(metrics.MakeGauge("espalier_controller_health",
                               "Health of the fabric and its flows: 0 is ok, 1 degraded, 2 failing "
                               "(`espalier status` names the reasons)")),
      max_link_load(metrics.MakeGauge(
          "espalier_controller_max_link_load",
          "Flows on the most loaded link between switches, relative to the fastest link")),
      max_link_load_bound(metrics.MakeGauge(
          "espalier_controller_max_link_load_bound",
          "Lower bound on the maximum link load of any assignment of the open flows")),
      worst_failure_load(metrics.MakeGauge(
          "espalier_controller_worst_failure_load",
          "Most flows that any link would carry, relative to the fastest link, if the worst single "
          "link or switch failed and hosts moved to their standby paths alone")),
      topology_version(metrics.MakeGauge(
          "espalier_controller_topology_version",
          "Version of the topology, which grows with every change of a link's state")),
      events_dropped(metrics.MakeGauge(
          "espalier_controller_events_dropped",
          "Events dropped since the start because their source caused too many")) {}

}  // namespace espalier::controller
