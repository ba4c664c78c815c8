#include "controller/api/views/flow_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "controller/intents/steering.h"
#include "controller/paths/path_learner.h"
#include "controller/paths/path_reach.h"

namespace espalier::controller {
namespace {

std::string Name(const State& state, fabric::NodeId id) { return state.topology.node(id).id; }

FlowWait ExplainUnroutable(const State& state, const ShownFlow& flow) {
  for (const IpAddress& address : {flow.source_address, flow.destination_address}) {
    const auto nic = state.topology.FindNic(address);
    if (nic && state.paths.FindAttachment(*nic)) continue;
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
  const auto sprayed = state.sprayed_hosts.find({flow.source_leaf, host});
  if (sprayed != state.sprayed_hosts.end()) {
    return {fmt::format("{} sends its packets over several paths, whatever its source port is",
                        Name(state, sprayed->second)),
            "none is needed, unless the switch is to hash flows: then turn off its adaptive "
            "routing or packet spraying"};
  }
  const std::string rules = SteeringRules(state.intents.steering, state.host_ranks).Describe();
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
  if (!PathLearner::CanProbe(flow.key) && state.path_map.Ports(flow.key).empty()) {
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
