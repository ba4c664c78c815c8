#include "controller/placement/arrivals/admission.h"

#include <algorithm>
#include <optional>

#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// Problem: after a restart, the controller is told of flows that are in progress on ports that it
// did not choose. Assigning them like new flows would move most of them for nothing.
// Idea: while a flow is kAdopting, its ports are reserved but its paths are open. A probe finds the
// path of each port, and Adopt, called for each answer, places the subflow there on its own port. A
// flow with a dead or drained path, or with unanswered ports at EndAdoption, becomes kNew.
// Invariant: a subflow that is `adopting` has a port and no path in FlowPaths.
// Cost: one probe for each port that the path map does not know; O(subflows) per answer.

bool Admission::FindEnds(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  const auto source = state_.topology.FindNic(flow.source_address);
  const auto destination = state_.topology.FindNic(flow.destination_address);
  const bool known =
      source && destination &&
      fabric::HostOf(state_.topology.node(*source)) == state_.agents.At(flow.agent).name;
  const auto from = known ? state_.paths.FindAttachment(*source) : std::nullopt;
  const auto to = known ? state_.paths.FindAttachment(*destination) : std::nullopt;
  if (!from || !to || state_.IsUplinkByAffinity(*source)) return false;
  fabric::PortKey key = flow.key;
  key.source = *source;
  key.destination = *destination;
  key.protocol =
      HashedProtocol(state_.paths, *source, flow.protocol, options_.fabric_hashes_protocol);
  key.destination_qpn = options_.fabric_hashes_qpn ? flow.remote_qpn : 0;
  decisions_.SetEnds(slot, key, from->leaf, to->leaf);
  return true;
}

void Admission::Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports) {
  if (!FindEnds(slot)) return decisions_.Decline(slot, FlowStatus::kUnroutable);
  const Flow& flow = state_.flows.At(slot);
  if (flow.source_leaf == flow.destination_leaf) {
    return decisions_.Decline(slot, FlowStatus::kLocal);
  }
  if (flow.path_fixed) return decisions_.Decline(slot, FlowStatus::kFixed);
  const auto pair = state_.flow_paths.pairs().find(flow.key);
  const std::size_t others = pair == state_.flow_paths.pairs().end() ? 0 : pair->second.size();
  if (others >= kMostFlowsOfPair) {
    ++refused_.flows;
    refused_.key = flow.key;
    return decisions_.Decline(slot, FlowStatus::kUnroutable);
  }
  const std::size_t most = others < kMostSplitOfPair
                               ? std::min<std::size_t>(kMaxSubflows, state_.PathsOf(flow).size())
                               : 1;
  const std::size_t subflows =
      std::clamp<std::size_t>(flow.max_paths, 1, std::max<std::size_t>(most, 1));
  if (!decisions_.Admit(slot, subflows, steered_ports) || Adopt(slot)) return;
  for (const Subflow& subflow : flow.subflows) {
    if (subflow.adopting) learner_.Verify(flow.key, subflow.port);
  }
}

bool Admission::Adopt(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  bool is_complete = true;
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    if (!flow.subflows[i].adopting) continue;
    const auto entry = state_.path_map.Find(flow.key, flow.subflows[i].port);
    if (entry && entry->trust != fabric::PortTrust::kReverify) {
      decisions_.AdoptPath(slot, i, entry->path);
    } else {
      is_complete = false;
    }
  }
  decisions_.SetInProgress(slot);
  if (is_complete) decisions_.FinishAdoption(slot);
  return is_complete;
}

void Admission::EndAdoption(AgentId agent) {
  for (const FlowSlot slot : state_.flows.OfAgent(agent)) {
    if (state_.flows.At(slot).status == FlowStatus::kAdopting) decisions_.AbandonAdoption(slot);
  }
}

}  // namespace espalier::controller
