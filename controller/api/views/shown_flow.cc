#include "controller/api/views/shown_flow.h"

#include <algorithm>

namespace espalier::controller {
namespace {

bool IsAcknowledged(const State& state, FlowSlot slot) {
  const PushState& push = state.flows.PushOf(slot);
  const Agent& agent = state.agents.At(state.flows.At(slot).agent);
  return !push.is_dirty && push.generation <= agent.acked_generation;
}

}  // namespace

bool UsesLink(const State& state, const ShownFlow& flow, fabric::LinkId link) {
  for (const fabric::NodeId nic : {flow.key.source, flow.key.destination}) {
    const auto attachment = state.paths.FindAttachment(nic);
    if (attachment && attachment->uplink.link == link) return true;
  }
  return std::ranges::any_of(flow.subflows, [&](const ShownFlow::Subflow& subflow) {
    if (!subflow.path) return false;
    const auto paths = state.paths.Between(flow.source_leaf, flow.destination_leaf);
    return std::ranges::any_of(paths[subflow.path->Index()].hops,
                               [&](fabric::DirectedLink hop) { return hop.link == link; });
  });
}

ShownFlow Show(const State& state, FlowSlot slot) {
  const Flow& flow = state.flows.At(slot);
  ShownFlow shown{
      .agent = flow.agent,
      .local = flow.local,
      .job = flow.job,
      .source_address = flow.source_address,
      .destination_address = flow.destination_address,
      .own_port = flow.own_port,
      .protocol = flow.protocol,
      .status = flow.status,
      .reason = flow.reason,
      .origin = flow.origin,
      .is_acknowledged = IsAcknowledged(state, slot),
      .key = flow.key,
      .source_leaf = flow.source_leaf,
      .destination_leaf = flow.destination_leaf,
      .max_rate_bps = flow.max_rate_bps,
      .activity = state.flows.ActivityOf(slot),
      .is_parked = flow.is_parked,
      .is_planned = flow.is_on_plan,
      .connection = {.other_end = flow.other_end,
                     .opposite = flow.opposite ? state.FlowName(state.flows.At(*flow.opposite))
                                               : std::string(),
                     .is_answering = flow.is_answering,
                     .timeout_us = flow.timeout_us,
                     .repetitions = flow.repetitions},
      .started = flow.started,
      .reach = ReachOf(state, state.topology, flow),
      .subflows = {}};
  shown.subflows.reserve(flow.subflows.size());
  for (const Subflow& subflow : flow.subflows) {
    const auto path = state.flow_paths.PathOf(subflow);
    if (flow.status == FlowStatus::kUnsteered) {
      shown.subflows.push_back({path, path ? flow.own_port : std::uint16_t{0}, false});
      continue;
    }
    const bool is_learning = path && (subflow.port == 0 || subflow.port_path != *path);
    shown.subflows.push_back({path, subflow.port, is_learning, subflow.standby_path,
                              subflow.standby_port, ShareOf(flow, subflow)});
  }
  return shown;
}

ShownFlow Show(const State& state, const EdgeName& name, const EdgeReservation& edge) {
  const auto address_of = [&](fabric::NodeId nic) {
    return state.topology.node(nic).addresses.front();
  };
  return {.agent = name.agent,
          .local = name.number,
          .job = edge.job,
          .source_address = address_of(edge.key.source),
          .destination_address = address_of(edge.key.destination),
          .own_port = edge.source_port,
          .protocol = edge.protocol,
          .origin = edge.origin,
          .key = edge.key,
          .source_leaf = edge.source_leaf,
          .destination_leaf = edge.destination_leaf,
          .activity = {},
          .started = edge.started,
          .reach = ReachOf(state, state.topology, edge),
          .subflows = {{edge.path, edge.source_port, edge.source_port == 0}}};
}

}  // namespace espalier::controller
