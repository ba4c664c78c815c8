#include "controller/api/views/shown_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "controller/intents/steering.h"
#include "controller/paths/models/path_reach.h"
#include "controller/paths/path_learner.h"

namespace espalier::controller {
namespace {

bool IsAcknowledged(const State& state, FlowSlot slot) {
  const PushState& push = state.flows.PushOf(slot);
  const Agent& agent = state.agents.At(state.flows.At(slot).agent);
  return !push.is_dirty && push.generation <= agent.acked_generation;
}

// What the links of a flow's NICs and its paths carry at most; the greatest number: not known.
std::uint64_t MostBps(const State& state, const Flow& flow) {
  constexpr auto kUnknown = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most = kUnknown;
  for (const IpAddress& address : {flow.source_address, flow.destination_address}) {
    const auto nic = state.topology.FindNic(address);
    const auto attachment = nic ? state.paths.FindAttachment(*nic) : std::nullopt;
    if (!attachment || !attachment->uplink) continue;
    const auto rate = state.topology.link(attachment->uplink->link).rate.value;
    most = std::min(most, static_cast<std::uint64_t>(rate));
  }
  std::uint64_t over_paths = 0;
  for (const Subflow& subflow : flow.subflows) {
    const auto path = state.flow_paths.PathOf(subflow);
    if (!path) return most;
    std::uint64_t slowest = kUnknown;
    for (const fabric::DirectedLink hop : state.PathsOf(flow)[path->Index()].hops) {
      const auto rate = static_cast<std::uint64_t>(state.topology.link(hop.link).rate.value);
      slowest = std::min(slowest, rate);
    }
    if (slowest == kUnknown) return most;
    over_paths += slowest;
  }
  return flow.subflows.empty() ? most : std::min(most, over_paths);
}

}  // namespace

bool UsesLink(const State& state, const ShownFlow& flow, fabric::LinkId link) {
  for (const fabric::NodeId nic : {flow.key.source, flow.key.destination}) {
    const auto attachment = state.paths.FindAttachment(nic);
    if (attachment && attachment->uplink && attachment->uplink->link == link) return true;
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
  // Programs say what they have sent, also what waits in a queue of the host.
  shown.activity.achieved_bps = std::min(shown.activity.achieved_bps, MostBps(state, flow));
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

namespace {

std::string Name(const State& state, fabric::NodeId id) { return state.topology.node(id).id; }

FlowWait ExplainUnroutable(const State& state, const ShownFlow& flow) {
  for (const IpAddress& address : {flow.source_address, flow.destination_address}) {
    const auto nic = state.topology.FindNic(address);
    const bool is_source = address == flow.source_address;
    if (nic && is_source && state.IsUplinkByAffinity(*nic)) {
      return {fmt::format("the port affinity of its queue pair chooses the uplink of {}, which "
                          "neither a source port nor an agent can",
                          Name(state, *nic)),
              "let a hash of the ports choose the uplink, and set \"uplink\" in the topology file"};
    }
    if (nic && state.paths.FindAttachment(*nic)) continue;
    if (nic && state.topology.node(*nic).uplink == fabric::UplinkChoice::kFixed) {
      return {fabric::WhyUnattached(state.topology, *nic),
              "let a hash of the ports choose the uplink, and set \"uplink\" in the topology file"};
    }
    return {
        fmt::format("the topology has no NIC with the address {} at a switch", address.ToString()),
        "add the NIC to the topology file and apply it (`espalier topology apply`)"};
  }
  const std::string& agent = state.agents.At(flow.agent).name;
  const std::string& host =
      fabric::HostOf(state.topology.node(*state.topology.FindNic(flow.source_address)));
  if (host != agent) {
    return {fmt::format("the agent {} reports it, but its source is a NIC of {}", agent, host),
            fmt::format("start the agent of {} with that name", host)};
  }
  if (flow.reach == Reach::kUnknownEnd) {
    return {"its two NICs have as many flows already as can be steered",
            "use fewer connections between these NICs"};
  }
  return {fmt::format("no path from {} to {} is usable", Name(state, flow.source_leaf),
                      Name(state, flow.destination_leaf)),
          "`espalier links --down` lists the links to repair, restore or undrain"};
}

FlowWait ExplainUnsteered(const State& state, const ShownFlow& flow) {
  const std::string& host = fabric::HostOf(state.topology.node(flow.key.source));
  const auto sprayed = state.notices.sprayed_hosts.find({flow.source_leaf, host});
  if (sprayed != state.notices.sprayed_hosts.end()) {
    return {fmt::format("{} sends its packets over several paths, whatever its source port is",
                        Name(state, sprayed->second)),
            "none is needed, unless the switch is to hash flows: then turn off its adaptive "
            "routing or packet spraying"};
  }
  const std::string rules = state.Steering().Describe();
  return {rules.empty() ? "operators do not want it steered" : rules,
          "`espalier steering` shows what is set, `espalier steering on` steers it"};
}

FlowWait ExplainLearning(const State& state, const ShownFlow& flow) {
  const auto agent = state.agents.FindByName(fabric::HostOf(state.topology.node(flow.key.source)));
  if (!agent || !state.agents.At(*agent).peer) {
    return {"its host's agent, which must probe for a source port, is not connected",
            "start espalier-agent on the host, or see why it does not connect (`espalier agents`)"};
  }
  const auto paths = state.paths.Between(flow.source_leaf, flow.destination_leaf);
  for (const ShownFlow::Subflow& subflow : flow.subflows) {
    if (!subflow.path || !subflow.is_learning) continue;
    if (!IsUnreachable(state.path_map, flow.key, paths, *subflow.path)) continue;
    return {fmt::format("no source port takes its path over {}",
                        fabric::ViaNames(state.topology, paths[subflow.path->Index()])),
            "give the tiers of switches different hash seeds, or let them withdraw the routes "
            "that they do not use"};
  }
  const bool is_fabric_tcp = flow.key.protocol == wire::kProtocolTcp &&
                             state.paths.FindAttachment(flow.key.source)->uplink.has_value();
  if (is_fabric_tcp && state.path_map.Ports(flow.key).empty()) {
    return {
        "probes are UDP and show nothing of the ports of this TCP flow, as the switches are "
        "taken to hash the protocol number",
        "set hash_ignores_protocol: true in the controller's configuration and restart it if "
        "the switches leave the protocol number out of their hash, or name their hashes in the "
        "topology file (ecmp)"};
  }
  if (state.path_map.Ports(flow.key).empty() && !state.path_map.SilentPorts(flow.key).empty()) {
    return {"no switch on the way has answered a probe yet",
            fmt::format("let the switches answer expired packets (ICMP time exceeded); `espalier "
                        "probe {} {}` shows what they answer",
                        Name(state, flow.key.source), Name(state, flow.key.destination))};
  }
  return {"probes have not found a source port for its path yet",
          fmt::format("none is needed if this lasts a moment; `espalier probe {} {}` shows which "
                      "ports take which path",
                      Name(state, flow.key.source), Name(state, flow.key.destination))};
}

}  // namespace

FlowWait ExplainWait(const State& state, const ShownFlow& flow) {
  switch (flow.status) {
    case FlowStatus::kNew:
      return {"it waits for the next assignment", "none is needed if this lasts a moment"};
    case FlowStatus::kAdopting:
      return {"a probe is finding the path of the port that it has",
              "none is needed if this lasts a moment; its agent must be connected (`espalier "
              "agents`)"};
    case FlowStatus::kLearning:
      return ExplainLearning(state, flow);
    case FlowStatus::kUnsteered:
      return ExplainUnsteered(state, flow);
    case FlowStatus::kUnroutable:
      return ExplainUnroutable(state, flow);
    case FlowStatus::kRouted:
    case FlowStatus::kLocal:
    case FlowStatus::kFixed:
      return {};
  }
  return {};
}

}  // namespace espalier::controller
