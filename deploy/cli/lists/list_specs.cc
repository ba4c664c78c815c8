#include "deploy/cli/lists/list_specs.h"

namespace espalier::cli {
namespace {

ListSpec Flows() {
  return {.name = "flows",
          .help = "List elephant flows with their paths, source ports and rates of the last 100 ms",
          .is_long = true,
          .columns = {{"FLOW", "flow"},
                      {"JOB", "job"},
                      {"SOURCE", "source"},
                      {"DESTINATION", "destination"},
                      {"STATUS", "status", CellFormat::kState},
                      {"VIA", "via"},
                      {"PORT", "source_port"},
                      {"RATE", "achieved_bps", CellFormat::kRate},
                      {"REMAINING", "remaining_bytes", CellFormat::kBytes},
                      {"REASON", "reason"}},
          .wide_columns = {{"REACH", "reach", CellFormat::kState},
                           {"SOURCE LEAF", "source_leaf"},
                           {"DESTINATION LEAF", "destination_leaf"},
                           {"ORIGIN", "origin"},
                           {"ATTESTED", "attested.state", CellFormat::kState},
                           {"BUSY", "busy"},
                           {"IN FLIGHT", "outstanding_bytes", CellFormat::kBytes},
                           {"AGE", "age_seconds", CellFormat::kSeconds}},
          .filters = {{"--job", "Only flows of this job", {"job"}, ""},
                      {"--host", "Only flows from or to this NIC", {"source", "destination"}, ""},
                      {"--leaf",
                       "Only flows from or to NICs at this switch",
                       {"source_leaf", "destination_leaf"},
                       ""},
                      {"--state",
                       "Only flows in this state",
                       {"status"},
                       "",
                       {"NEW", "ADOPTING", "LEARNING", "ROUTED", "LOCAL", "FIXED", "UNSTEERED",
                        "UNROUTABLE"}},
                      {"--attested",
                       "Only flows of which switches report this",
                       {"attested.state"},
                       "",
                       {"NOT_SEEN", "AS_DECIDED", "ELSEWHERE"}},
                      {"--link", "Only flows whose path has this link", {}, "link"}},
          .order = "flow",
          .down_key = "reach",
          .up_value = "FINE"};
}

ListSpec EndedFlows() {
  return {.name = "flows",
          .help = "",
          .is_long = true,
          .columns = {{"ENDED", "time"},
                      {"FLOW", "flow"},
                      {"JOB", "job"},
                      {"SOURCE", "source"},
                      {"DESTINATION", "destination"},
                      {"STATUS", "status", CellFormat::kState},
                      {"VIA", "via"},
                      {"PORT", "source_port"},
                      {"BYTES", "bytes", CellFormat::kBytes},
                      {"LASTED", "seconds", CellFormat::kSeconds},
                      {"REASON", "reason"}},
          .filters = Flows().filters,
          .order = "-sequence",
          .path = "flows/ended"};
}

ListSpec UnannouncedFlows() {
  return {.name = "flows",
          .help = "",
          .columns = {{"SOURCE", "source"},
                      {"DESTINATION", "destination"},
                      {"PROTOCOL", "protocol"},
                      {"PORT", "source_port"},
                      {"TO PORT", "destination_port"},
                      {"QUEUE PAIR", "queue_pair"},
                      {"RATE", "bps", CellFormat::kRate},
                      {"SEEN ON", "via"},
                      {"SEEN FOR", "seen_for_seconds", CellFormat::kSeconds}},
          .filters = Flows().filters,
          .order = "-bps",
          .path = "flows/unannounced"};
}

ListSpec Jobs() {
  return {.name = "jobs",
          .help =
              "List jobs with their flows, their rates of the last 100 ms and the time of their "
              "all-reduces; those that have ended are last",
          .is_long = true,
          .columns = {{"JOB", "job"},
                      {"FLOWS", "flows"},
                      {"NO PATH", "flows_unroutable"},
                      {"RATE", "achieved_bps", CellFormat::kRate},
                      {"SLOWEST FLOW", "slowest_flow_bps", CellFormat::kRate},
                      {"ALL-REDUCE", "allreduce_seconds", CellFormat::kSeconds},
                      {"IDEAL", "ideal_seconds", CellFormat::kSeconds},
                      {"ROUNDS", "rounds"},
                      {"WEIGHT", "weight"},
                      {"FOREST", "forest"}},
          .wide_columns = {{"ROUTED", "flows_routed"},
                           {"MAX LINK FLOWS", "max_link_flows"},
                           {"IN ROUND", "in_round"}},
          .filters = {{"--job", "Only this job", {"job"}, ""}},
          .order = "job",
          .known_by = "rounds",
          .known_keys = {"allreduce_seconds", "ideal_seconds"}};
}

ListSpec Links() {
  return {.name = "links",
          .help =
              "List links with their states, flows, rates of the last 100 ms and background "
              "traffic; those that are not up are first",
          .is_long = true,
          .columns = {{"LINK", "id"},
                      {"GBPS", "gbps"},
                      {"STATE", "state", CellFormat::kState},
                      {"FLOWS A>B", "flows_a_to_b"},
                      {"FLOWS B>A", "flows_b_to_a"},
                      {"RATE A>B", "bps_a_to_b", CellFormat::kRate},
                      {"RATE B>A", "bps_b_to_a", CellFormat::kRate},
                      {"BACKGROUND A>B", "background_a_to_b.bps", CellFormat::kRate},
                      {"BACKGROUND B>A", "background_b_to_a.bps", CellFormat::kRate},
                      {"REASON", "reason"},
                      {"TEST", "why.words"}},
          .wide_columns = {{"A", "a"},
                           {"B", "b"},
                           {"LOAD A>B", "load_a_to_b"},
                           {"LOAD B>A", "load_b_to_a"},
                           {"FAILED BY OPERATOR", "failed_by_operator"}},
          .filters = {{"--link", "Only links with this id", {"id"}, ""},
                      {"--host", "Only links of this node", {"a", "b"}, ""},
                      {"--leaf", "Only links of this switch", {"a", "b"}, ""},
                      {"--state",
                       "Only links in this state",
                       {"state"},
                       "",
                       {"UP", "DOWN", "DRAINED", "LOSSY"}}},
          .down_key = "state",
          .up_value = "UP"};
}

ListSpec Nodes() {
  return {
      .name = "nodes",
      .help = "List the hosts and switches of the topology, with their links and agents",
      .is_long = true,
      .columns = {{"NODE", "id"},
                  {"KIND", "kind"},
                  {"ROLE", "role"},
                  {"HOST", "host"},
                  {"STATE", "state", CellFormat::kState},
                  {"LINKS", "links"},
                  {"UP", "links_up"},
                  {"AGENT", "agent"},
                  {"REASON", "reason"}},
      .filters = {{"--host", "Only this node, or the nodes of this host", {"id", "host"}, ""},
                  {"--kind", "Only nodes of this kind", {"kind"}, "", {"COMPUTE", "NIC", "SWITCH"}},
                  {"--state", "Only nodes in this state", {"state"}, "", {"UP", "DOWN", "DRAINED"}},
                  {"--agent",
                   "Only nodes whose agent is connected or missing; - stands for nodes "
                   "that need none",
                   {"agent"},
                   "",
                   {"connected", "missing", "-"}}},
      .down_key = "state",
      .up_value = "UP"};
}

ListSpec Agents() {
  return {.name = "agents",
          .help =
              "List every agent that has ever connected (`espalier nodes --agent missing` lists "
              "the others)",
          .is_long = true,
          .columns = {{"AGENT", "name"},
                      {"CONNECTED", "connected"},
                      {"FLOWS", "flows"},
                      {"PUSHED", "generation"},
                      {"ACKNOWLEDGED", "acknowledged_generation"},
                      {"SILENT", "silent_seconds", CellFormat::kSeconds}},
          .filters = {{"--host", "Only the agent of this host", {"name"}, ""}},
          .order = "name",
          .down_key = "connected",
          .up_value = "yes"};
}

ListSpec Plans() {
  return {.name = "plans",
          .help = "List the latest paths pushed to agents, the newest first",
          .is_long = true,
          .columns = {{"TIME", "time"},
                      {"FLOW", "flow"},
                      {"JOB", "job"},
                      {"SOURCE", "source"},
                      {"DESTINATION", "destination"},
                      {"PORT", "source_port"},
                      {"VIA", "via"},
                      {"REASON", "reason"}},
          .filters = {{"--flow", "Only pushes of this flow", {"flow"}, ""},
                      {"--job", "Only pushes of this job", {"job"}, ""},
                      {"--host", "Only flows from or to this NIC", {"source", "destination"}, ""}},
          .order = "-sequence",
          .has_times = true};
}

ListSpec Predictions() {
  return {.name = "predict",
          .help = "List when the next flows of each job are expected, and how far that was off",
          .columns = {{"JOB", "job"},
                      {"NEXT FLOWS", "next_words"},
                      {"PATHS", "paths_words"},
                      {"BURSTS", "bursts_words"},
                      {"ERRORS", "errors_words"}},
          .wide_columns = {{"ON", "on"},
                           {"PERIOD", "period_seconds", CellFormat::kSeconds},
                           {"NEXT IN", "next_in_seconds", CellFormat::kSeconds},
                           {"+-", "uncertainty_seconds", CellFormat::kSeconds},
                           {"CONFIDENCE", "confidence"},
                           {"FLOWS", "next_flows"},
                           {"PLANNED", "planned"},
                           {"BURSTS", "bursts"},
                           {"READY", "bursts_ready"},
                           {"START P50", "start_error_p50"},
                           {"START P90", "start_error_p90"},
                           {"END P50", "end_error_p50"},
                           {"END P90", "end_error_p90"}},
          .filters = {{"--job", "Only this job", {"job"}, ""}},
          .order = "job",
          .known_by = "next_known",
          .known_keys = {"period_seconds", "next_in_seconds", "uncertainty_seconds", "confidence",
                         "next_flows", "planned"},
          .percent_keys = {"confidence", "start_error_p50", "start_error_p90", "end_error_p50",
                           "end_error_p90"}};
}

ListSpec Events() {
  return {.name = "events",
          .help = "List events, the newest first",
          .is_long = true,
          .columns = {{"TIME", "time"}, {"KIND", "kind"}, {"TEXT", "text"}},
          .filters = {{"--kind", "Only events of this kind, such as link_lossy", {"kind"}, ""}},
          .order = "-sequence",
          .has_times = true};
}

ListSpec IntentList() {
  return {.name = "intents",
          .help = "List the operators' intents that are in force",
          .columns = {{"WHAT", "what"},
                      {"ID", "id"},
                      {"VALUE", "value"},
                      {"ACTOR", "actor"},
                      {"SINCE", "since"},
                      {"UNTIL", "until"},
                      {"REASON", "reason"}}};
}

ListSpec Audit() {
  return {.name = "audit",
          .help = "List who did what, when and why, and how many flows moved, the newest first",
          .columns = {{"TIME", "time"},
                      {"ACTOR", "actor"},
                      {"ACTION", "action"},
                      {"TARGET", "target"},
                      {"RESULT", "result", CellFormat::kState},
                      {"MOVED", "moved"},
                      {"REVISION", "revision"},
                      {"REASON", "reason"},
                      {"DETAIL", "detail"}},
          .filters = {{"--actor", "Only actions of this operator", {"actor"}, ""}},
          .order = "-sequence",
          .has_times = true};
}

}  // namespace

const std::vector<ListSpec>& ListSpecs() {
  static const std::vector<ListSpec> specs = {Flows(),      Jobs(),  Links(),       Nodes(),
                                              Agents(),     Plans(), Predictions(), Events(),
                                              IntentList(), Audit()};
  return specs;
}

const ListSpec& EndedFlowsSpec() {
  static const ListSpec spec = EndedFlows();
  return spec;
}

const ListSpec& UnannouncedFlowsSpec() {
  static const ListSpec spec = UnannouncedFlows();
  return spec;
}

}  // namespace espalier::cli
