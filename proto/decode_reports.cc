#include "proto/decode_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "proto/bodies.h"
#include "proto/espalier/v1/messages.pb.h"
#include "proto/limits.h"

namespace espalier::wire {
namespace {

using enum Rules::Presence;

void CheckProtocols(const Field& field, std::span<const std::uint32_t> column, Rules& rules) {
  for (std::size_t i = 0; i < column.size(); ++i) {
    if (column[i] == kProtocolUdp || column[i] == kProtocolTcp) continue;
    return rules.Fail(field.At(i), fmt::format("{} is neither {} (UDP) nor {} (TCP)", column[i],
                                               kProtocolUdp, kProtocolTcp));
  }
}

void CheckOpened(const v1::FlowReport& report, Rules& rules) {
  const v1::OpenedFlows& from = report.opened();
  const Field id = "flow_report.opened.id";
  const int n = from.id_size();
  rules.AtMost(id, n, kMaxFlowsPerReport);
  rules.SameLength("flow_report.opened.job", from.job_size(), id, n);
  rules.SameLength("flow_report.opened.source", from.source_size(), id, n);
  rules.SameLength("flow_report.opened.destination", from.destination_size(), id, n);
  rules.SameLength("flow_report.opened.protocol", from.protocol_size(), id, n);
  rules.SameLength("flow_report.opened.destination_port", from.destination_port_size(), id, n);
  rules.SameLength("flow_report.opened.local_qpn", from.local_qpn_size(), id, n);
  rules.SameLength("flow_report.opened.remote_qpn", from.remote_qpn_size(), id, n);
  rules.SameLength("flow_report.opened.max_paths", from.max_paths_size(), id, n);
  rules.SameLength("flow_report.opened.movable", from.movable_size(), id, n);
  rules.SameLength("flow_report.opened.age_us", from.age_us_size(), id, n);
  rules.SameLength("flow_report.opened.source_port", from.source_port_size(), id, n);
  rules.SameLength("flow_report.opened.steered", from.steered_size(), id, n);
  if (from.path_count_size() != 0) {
    rules.SameLength("flow_report.opened.path_count", from.path_count_size(), id, n);
  }
  if (from.keeps_rate_size() != 0) {
    rules.SameLength("flow_report.opened.keeps_rate", from.keeps_rate_size(), id, n);
  }
  if (from.keeps_weights_size() != 0) {
    rules.SameLength("flow_report.opened.keeps_weights", from.keeps_weights_size(), id, n);
  }
  if (from.path_fixed_size() != 0) {
    rules.SameLength("flow_report.opened.path_fixed", from.path_fixed_size(), id, n);
  }
  if (from.timeout_us_size() + from.repetitions_size() != 0) {
    rules.SameLength("flow_report.opened.timeout_us", from.timeout_us_size(), id, n);
    rules.SameLength("flow_report.opened.repetitions", from.repetitions_size(), id, n);
  }
  if (!rules.ok()) return;
  rules.Unique(id, Column(from.id()));
  rules.Indexes("flow_report.opened.job", Column(from.job()), "jobs", report.jobs_size());
  rules.Indexes("flow_report.opened.source", Column(from.source()), "addresses",
                report.addresses_size());
  rules.Indexes("flow_report.opened.destination", Column(from.destination()), "addresses",
                report.addresses_size());
  CheckProtocols("flow_report.opened.protocol", Column(from.protocol()), rules);
  rules.InRange("flow_report.opened.destination_port", Column(from.destination_port()), 1,
                kMaxPort);
  rules.InRange("flow_report.opened.local_qpn", Column(from.local_qpn()), 0, kMaxQpn);
  rules.InRange("flow_report.opened.remote_qpn", Column(from.remote_qpn()), 0, kMaxQpn);
  rules.InRange("flow_report.opened.max_paths", Column(from.max_paths()), 1, kMaxPathsPerFlow);
  rules.InRange("flow_report.opened.age_us", Column(from.age_us()), 0, kMaxDurationUs);
  rules.InRange("flow_report.opened.source_port", Column(from.source_port()), 0, kMaxPort);
  rules.InRange("flow_report.opened.path_count", Column(from.path_count()), 0, kMaxPathsPerFlow);
  rules.InRange("flow_report.opened.path_port", Column(from.path_port()), 0, kMaxPort);
  const std::uint64_t paths =
      std::accumulate(from.path_count().begin(), from.path_count().end(), std::uint64_t{0});
  rules.InRange("flow_report.opened.path_port (entries)", Size(from.path_port_size()), paths,
                paths);
}

void DecodeOpened(const v1::FlowReport& report, Rules& rules, std::vector<OpenedFlow>& to) {
  CheckOpened(report, rules);
  if (!rules.ok()) return;
  const v1::OpenedFlows& from = report.opened();
  to.resize(Size(from.id_size()));
  auto next_port = from.path_port().begin();
  for (int i = 0; i < from.id_size(); ++i) {
    to[Size(i)] = OpenedFlow{
        .id = LocalFlowId(from.id(i)),
        .job = from.job(i),
        .source = from.source(i),
        .destination = from.destination(i),
        .protocol = static_cast<std::uint8_t>(from.protocol(i)),
        .destination_port = static_cast<std::uint16_t>(from.destination_port(i)),
        .local_qpn = from.local_qpn(i),
        .remote_qpn = from.remote_qpn(i),
        .max_paths = static_cast<std::uint8_t>(from.max_paths(i)),
        .movable = from.movable(i),
        .age_us = from.age_us(i),
        .source_port = static_cast<std::uint16_t>(from.source_port(i)),
        .steered = from.steered(i),
        .path_ports = {},
        .keeps_rate = from.keeps_rate_size() != 0 && from.keeps_rate(i),
        .keeps_weights = from.keeps_weights_size() != 0 && from.keeps_weights(i),
        .path_fixed = from.path_fixed_size() != 0 && from.path_fixed(i),
        .timeout_us = from.timeout_us_size() != 0 ? from.timeout_us(i) : 0,
        .repetitions = from.repetitions_size() != 0 ? from.repetitions(i) : 0,
    };
    if (from.path_count_size() == 0) continue;
    for (std::uint32_t left = from.path_count(i); left > 0; --left) {
      to[Size(i)].path_ports.push_back(static_cast<std::uint16_t>(*next_port++));
    }
  }
}

void CheckProgress(const v1::FlowProgress& from, Rules& rules) {
  const Field id = "flow_report.progress.id";
  const int n = from.id_size();
  rules.AtMost(id, n, kMaxFlowsPerReport);
  rules.SameLength("flow_report.progress.remaining_bytes", from.remaining_bytes_size(), id, n);
  rules.SameLength("flow_report.progress.outstanding_bytes", from.outstanding_bytes_size(), id, n);
  rules.SameLength("flow_report.progress.achieved_bps", from.achieved_bps_size(), id, n);
  rules.SameLength("flow_report.progress.state", from.state_size(), id, n);
  if (from.sent_bytes_size() != 0) {
    rules.SameLength("flow_report.progress.sent_bytes", from.sent_bytes_size(), id, n);
  }
  if (from.edges_size() + from.edge_age_us_size() + from.duty_permille_size() != 0) {
    rules.SameLength("flow_report.progress.edges", from.edges_size(), id, n);
    rules.SameLength("flow_report.progress.edge_age_us", from.edge_age_us_size(), id, n);
    rules.SameLength("flow_report.progress.duty_permille", from.duty_permille_size(), id, n);
  }
  rules.Unique(id, Column(from.id()));
  rules.InRange("flow_report.progress.remaining_bytes", Column(from.remaining_bytes()), 0,
                kMaxQuantity);
  rules.InRange("flow_report.progress.outstanding_bytes", Column(from.outstanding_bytes()), 0,
                kMaxQuantity);
  rules.InRange("flow_report.progress.achieved_bps", Column(from.achieved_bps()), 0, kMaxQuantity);
  rules.InRange("flow_report.progress.state", Column(from.state()), 0, v1::FlowState_MAX);
  rules.InRange("flow_report.progress.sent_bytes", Column(from.sent_bytes()), 0, kMaxQuantity);
  rules.InRange("flow_report.progress.edge_age_us", Column(from.edge_age_us()), 0, kMaxDurationUs);
  rules.InRange("flow_report.progress.duty_permille", Column(from.duty_permille()), 0,
                kMaxPermille);
}

void DecodeProgress(const v1::FlowProgress& from, Rules& rules, std::vector<FlowProgress>& to) {
  CheckProgress(from, rules);
  if (!rules.ok()) return;
  const bool tells_sent = from.sent_bytes_size() != 0;
  const bool tells_edges = from.edges_size() != 0;
  to.resize(Size(from.id_size()));
  for (int i = 0; i < from.id_size(); ++i) {
    FlowProgress& flow = to[Size(i)];
    flow = FlowProgress{.id = LocalFlowId(from.id(i)),
                        .remaining_bytes = from.remaining_bytes(i),
                        .outstanding_bytes = from.outstanding_bytes(i),
                        .achieved_bps = from.achieved_bps(i),
                        .state = static_cast<FlowState>(from.state(i)),
                        .sent_bytes = tells_sent ? from.sent_bytes(i) : 0};
    if (!tells_edges) continue;
    flow.edges = from.edges(i);
    flow.edge_age_us = from.edge_age_us(i);
    flow.duty_permille = static_cast<std::uint16_t>(from.duty_permille(i));
  }
}

void DecodePath(const v1::FlowPath& from, const Field& field, std::uint64_t least_weight,
                Rules& rules, FlowPath& to) {
  // With another encoding of the path, the port may be 0.
  rules.InRange({field, "source_port"}, from.source_port(), from.encoding().empty() ? 1 : 0,
                kMaxPort);
  rules.InRange({field, "weight"}, from.weight(), least_weight,
                std::numeric_limits<std::uint32_t>::max());
  rules.InRange({field, "encoding (bytes)"}, from.encoding().size(), 0, kMaxNameBytes);
  rules.AtMost({field, "links"}, from.links_size(), kMaxLinksPerPath);
  if (!rules.ok()) return;
  to.source_port = static_cast<std::uint16_t>(from.source_port());
  to.weight = from.weight();
  to.path_id = from.path_id();
  to.encoding = from.encoding();
  to.links.assign(from.links().begin(), from.links().end());
}

void DecodePathSet(const v1::PathSet& from, const Field& field, Rules& rules, PathSet& to) {
  rules.InRange({field, "paths (entries)"}, Size(from.paths_size()), 1, kMaxPathsPerFlow);
  rules.InRange({field, "max_rate_bps"}, from.max_rate_bps(), 0, kMaxQuantity);
  rules.InRange({field, "reason"}, static_cast<std::uint64_t>(from.reason()), 0,
                v1::PathReason_MAX);
  if (!rules.ok()) return;
  to.flow = LocalFlowId(from.flow());
  to.max_rate_bps = from.max_rate_bps();
  to.reason = static_cast<PathReason>(from.reason());
  to.paths.resize(Size(from.paths_size()));
  for (std::size_t i = 0; i < to.paths.size(); ++i) {
    // The first path is no standby.
    DecodePath(from.paths(static_cast<int>(i)), {field, "paths", i}, i == 0 ? 1 : 0, rules,
               to.paths[i]);
  }
}

}  // namespace

void DecodeBody(const v1::FlowReport& from, Rules& rules, FlowReport& to) {
  rules.AtMost("flow_report.jobs", from.jobs_size(), kMaxTableEntries);
  rules.AtMost("flow_report.addresses", from.addresses_size(), kMaxTableEntries);
  rules.AtMost("flow_report.ended", from.ended_size(), kMaxFlowsPerReport);
  rules.Unique("flow_report.ended", Column(from.ended()));
  rules.InRange("flow_report.sent_us", from.sent_us(), 0, kMaxDurationUs);
  if (!rules.ok()) return;
  for (int i = 0; i < from.jobs_size(); ++i) {
    rules.Name({"flow_report.jobs", Size(i)}, from.jobs(i), kOptional);
  }
  to.full = from.full();
  to.sequence = from.sequence();
  to.sent_us = from.sent_us();
  to.jobs.assign(from.jobs().begin(), from.jobs().end());
  to.addresses.resize(Size(from.addresses_size()));
  for (int i = 0; i < from.addresses_size(); ++i) {
    to.addresses[Size(i)] = rules.Address({"flow_report.addresses", Size(i)}, from.addresses(i));
  }
  DecodeOpened(from, rules, to.opened);
  DecodeProgress(from.progress(), rules, to.progress);
  AssignIds(from.ended(), to.ended);
}

void DecodeBody(const v1::PathPush& from, Rules& rules, PathPush& to) {
  rules.AtMost("path_push.sets", from.sets_size(), kMaxFlowsPerReport);
  rules.AtMost("path_push.withdrawn", from.withdrawn_size(), kMaxFlowsPerReport);
  rules.AtMost("path_push.unsteered", from.unsteered_size(), kMaxFlowsPerReport);
  if (!rules.ok()) return;
  to.epoch = from.epoch();
  to.generation = from.generation();
  to.full = from.full();
  to.plans = from.plans();
  to.sets.resize(Size(from.sets_size()));
  for (std::size_t i = 0; i < to.sets.size(); ++i) {
    DecodePathSet(from.sets(static_cast<int>(i)), {"path_push.sets", i}, rules, to.sets[i]);
  }
  AssignIds(from.withdrawn(), to.withdrawn);
  AssignIds(from.unsteered(), to.unsteered);
  std::vector<std::uint64_t> flows(to.sets.size());
  std::transform(to.sets.begin(), to.sets.end(), flows.begin(),
                 [](const PathSet& set) { return set.flow.value(); });
  rules.Unique("path_push.sets.flow", flows, "path_push.withdrawn", Column(from.withdrawn()));
}

void DecodeBody(const v1::ProbeReport& from, Rules& rules, ProbeReport& to) {
  const Field port = "probe_report.source_port";
  const int n = from.source_port_size();
  rules.AtMost(port, n, kMaxProbesPerOrder);
  rules.AtMost("probe_report.responders", from.responders_size(), kMaxTableEntries);
  rules.SameLength("probe_report.ttl", from.ttl_size(), port, n);
  rules.SameLength("probe_report.responder", from.responder_size(), port, n);
  rules.SameLength("probe_report.rtt_us", from.rtt_us_size(), port, n);
  rules.InRange(port, Column(from.source_port()), 1, kMaxPort);
  rules.InRange("probe_report.ttl", Column(from.ttl()), 1, kMaxTtl);
  rules.Indexes("probe_report.responder", Column(from.responder()), "responders",
                from.responders_size());
  rules.Text("probe_report.error", from.error());
  if (!rules.ok()) return;
  to.order = from.order();
  to.done = from.done();
  to.sent = from.sent();
  to.error = from.error();
  std::vector<IpAddress> responders(Size(from.responders_size()));
  for (std::size_t i = 0; i < responders.size(); ++i) {
    responders[i] =
        rules.Address({"probe_report.responders", i}, from.responders(static_cast<int>(i)));
  }
  to.answers.resize(Size(n));
  for (int i = 0; i < n; ++i) {
    to.answers[Size(i)] = {.source_port = static_cast<std::uint16_t>(from.source_port(i)),
                           .ttl = static_cast<std::uint8_t>(from.ttl(i)),
                           .responder = responders[from.responder(i)],
                           .rtt_us = from.rtt_us(i)};
  }
}

void DecodeBody(const v1::PathHealth& from, Rules& rules, PathHealth& to) {
  const Field flow = "path_health.flow";
  const int n = from.flow_size();
  rules.AtMost(flow, n, kMaxFlowsPerReport);
  rules.SameLength("path_health.path_id", from.path_id_size(), flow, n);
  rules.SameLength("path_health.source_port", from.source_port_size(), flow, n);
  rules.SameLength("path_health.achieved_bps", from.achieved_bps_size(), flow, n);
  rules.SameLength("path_health.planned_bps", from.planned_bps_size(), flow, n);
  rules.SameLength("path_health.retries", from.retries_size(), flow, n);
  rules.SameLength("path_health.out_of_sequence", from.out_of_sequence_size(), flow, n);
  rules.SameLength("path_health.cnp", from.cnp_size(), flow, n);
  rules.SameLength("path_health.rtt_us", from.rtt_us_size(), flow, n);
  rules.SameLength("path_health.verdict", from.verdict_size(), flow, n);
  if (from.recovered_us_size() != 0) {
    rules.SameLength("path_health.recovered_us", from.recovered_us_size(), flow, n);
  }
  if (from.answered_size() != 0) {
    rules.SameLength("path_health.answered", from.answered_size(), flow, n);
  }
  if (from.left_port_size() != 0) {
    rules.SameLength("path_health.left_port", from.left_port_size(), flow, n);
  }
  if (from.basis_size() != 0) {
    rules.SameLength("path_health.basis", from.basis_size(), flow, n);
  }
  rules.InRange("path_health.source_port", Column(from.source_port()), 0, kMaxPort);
  rules.InRange("path_health.left_port", Column(from.left_port()), 0, kMaxPort);
  rules.InRange("path_health.achieved_bps", Column(from.achieved_bps()), 0, kMaxQuantity);
  rules.InRange("path_health.planned_bps", Column(from.planned_bps()), 0, kMaxQuantity);
  rules.InRange("path_health.verdict", Column(from.verdict()), 0, v1::PathVerdict_MAX);
  rules.InRange("path_health.basis", Column(from.basis()), 0, v1::PathBasis_MAX);
  rules.InRange("path_health.recovered_us", Column(from.recovered_us()), 0, kMaxDurationUs);
  rules.AtMostEach(flow, Column(from.flow()), kMaxPathsPerFlow);
  if (!rules.ok()) return;
  to.flows.resize(Size(n));
  for (int i = 0; i < n; ++i) {
    const std::uint32_t left_port = from.left_port_size() != 0 ? from.left_port(i) : 0;
    const std::uint32_t basis = from.basis_size() != 0 ? from.basis(i) : 0;
    to.flows[Size(i)] = {.flow = LocalFlowId(from.flow(i)),
                         .path_id = from.path_id(i),
                         .source_port = static_cast<std::uint16_t>(from.source_port(i)),
                         .achieved_bps = from.achieved_bps(i),
                         .planned_bps = from.planned_bps(i),
                         .retries = from.retries(i),
                         .out_of_sequence = from.out_of_sequence(i),
                         .cnp = from.cnp(i),
                         .rtt_us = from.rtt_us(i),
                         .verdict = static_cast<PathVerdict>(from.verdict(i)),
                         .answered = from.answered_size() != 0 && from.answered(i),
                         .left_port = static_cast<std::uint16_t>(left_port),
                         .recovered_us = from.recovered_us_size() != 0 ? from.recovered_us(i) : 0,
                         .basis = static_cast<PathBasis>(basis)};
  }
}

}  // namespace espalier::wire
