#include "controller/placement/admission.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// Problem: after a restart, the controller is told of flows that are in progress on ports that it
// did not choose. Assigning them like new flows would move most of them for nothing.
// Idea: while a flow is kAdopting, its ports are reserved but its paths are open. A probe finds the
// path of each port, and Adopt, called for each answer, places the subflow there on its own port. A
// flow with a dead or drained path, or with unanswered ports at EndAdoption, becomes kNew.
// Invariant: a subflow that is `adopting` has a port and no path in FlowPaths.
// Cost: one probe for each port that the path map does not know; O(subflows) per answer.

bool Admission::FindEnds(Flow& flow) const {
  const auto source = state_.topology.FindNic(flow.source_address);
  const auto destination = state_.topology.FindNic(flow.destination_address);
  const bool known =
      source && destination &&
      fabric::HostOf(state_.topology.node(*source)) == state_.agents.At(flow.agent).name;
  const auto from = known ? state_.paths.FindAttachment(*source) : std::nullopt;
  const auto to = known ? state_.paths.FindAttachment(*destination) : std::nullopt;
  if (!from || !to) return false;
  flow.key.source = *source;
  flow.key.destination = *destination;
  flow.key.protocol = options_.fabric_hashes_protocol ? flow.protocol : wire::kProtocolUdp;
  flow.key.destination_qpn = options_.fabric_hashes_qpn ? flow.remote_qpn : 0;
  flow.source_leaf = from->leaf;
  flow.destination_leaf = to->leaf;
  return true;
}

void Admission::Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports) {
  Flow& flow = state_.flows.At(slot);
  if (!FindEnds(flow)) {
    flow.status = FlowStatus::kUnroutable;
    return;
  }
  if (flow.source_leaf == flow.destination_leaf) {
    flow.status = FlowStatus::kLocal;
    return;
  }
  if (flow.path_fixed) {
    flow.status = FlowStatus::kFixed;
    return;
  }
  const auto pair = state_.flow_paths.pairs().find(flow.key);
  const std::size_t others = pair == state_.flow_paths.pairs().end() ? 0 : pair->second.size();
  if (others >= kMostFlowsOfPair) {
    flow.status = FlowStatus::kUnroutable;
    ++refused_.flows;
    refused_.key = flow.key;
    return;
  }
  const std::size_t most = others < kMostSplitOfPair
                               ? std::min<std::size_t>(kMaxSubflows, state_.PathsOf(flow).size())
                               : 1;
  flow.subflows.resize(std::clamp<std::size_t>(flow.max_paths, 1, std::max<std::size_t>(most, 1)));
  state_.flow_paths.Register(slot);
  state_.connections.Open(slot);
  bool any = false;
  for (std::size_t i = 0; i < std::min(flow.subflows.size(), steered_ports.size()); ++i) {
    const std::uint16_t port = steered_ports[i];
    if (port == 0 || !state_.flow_paths.TakePort(flow.key, port)) continue;
    flow.subflows[i].port = port;
    flow.subflows[i].adopting = true;
    any = true;
  }
  state_.flows.SetStatus(slot, any ? FlowStatus::kAdopting : FlowStatus::kNew);
  if (!any || Adopt(slot)) return;
  for (const Subflow& subflow : flow.subflows) {
    if (subflow.adopting) learner_.Verify(flow.key, subflow.port);
  }
}

void Admission::Release(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  for (Subflow& subflow : flow.subflows) {
    state_.flow_paths.Remove(subflow);
    if (subflow.port != 0) state_.flow_paths.ReleasePort(flow.key, subflow.port);
    ports_.ReleaseStandby(slot, subflow);
  }
  flow.subflows.clear();
  state_.flow_paths.Unregister(slot);
  state_.connections.Close(slot);
}

bool Admission::Adopt(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  bool lacks_paths = false;
  bool is_complete = true;
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    Subflow& subflow = flow.subflows[i];
    if (subflow.adopting) {
      const auto entry = state_.path_map.Find(flow.key, subflow.port);
      if (!entry || entry->trust == fabric::PortTrust::kReverify) {
        is_complete = false;
        continue;
      }
      const fabric::Path& path = state_.PathsOf(flow)[entry->path.Index()];
      subflow.adopting = false;
      subflow.port_path = entry->path;
      subflow.urgent = !fabric::IsAlive(state_.topology, path);
      if (subflow.urgent) ports_.SetPort(slot, subflow, 0);
      if (fabric::IsUsable(state_.topology, path)) {
        if (!subflow.id) state_.flow_paths.Add(slot, i);
        state_.flow_paths.Place(subflow, entry->path.value());
      }
    }
    lacks_paths = lacks_paths || !state_.flow_paths.PathOf(subflow);
  }
  state_.flow_paths.SetInProgress(flow);
  if (!is_complete) return false;
  state_.pushes.MarkFlow(slot);
  state_.flows.SetStatus(slot, lacks_paths ? FlowStatus::kNew : FlowStatus::kRouted);
  return true;
}

void Admission::EndAdoption(AgentId agent) {
  for (const FlowSlot slot : state_.flows.OfAgent(agent)) {
    Flow& flow = state_.flows.At(slot);
    if (flow.status != FlowStatus::kAdopting) continue;
    for (Subflow& subflow : flow.subflows) {
      if (std::exchange(subflow.adopting, false)) ports_.SetPort(slot, subflow, 0);
    }
    state_.flows.SetStatus(slot, FlowStatus::kNew);
  }
}

}  // namespace espalier::controller
