#include "controller/placement.h"

#include <algorithm>
#include <tuple>

#include "controller/routing/greedy.h"

namespace espalier::controller {

using fabric::NodeId;
using fabric::PathIndex;
using wire::PathReason;

namespace {

const std::string& OwnerOf(const fabric::Node& node) {
  return node.host.empty() ? node.id : node.host;
}

}  // namespace

void Placement::Admit(FlowSlot slot, bool steered) {
  Flow& flow = state_.flows.At(slot);
  const auto source = state_.topology.FindNic(flow.source_address);
  const auto destination = state_.topology.FindNic(flow.destination_address);
  const bool known = source && destination &&
                     OwnerOf(state_.topology.node(*source)) == state_.agents.At(flow.agent).name;
  const auto from = known ? state_.paths.FindAttachment(*source) : std::nullopt;
  const auto to = known ? state_.paths.FindAttachment(*destination) : std::nullopt;
  if (!from || !to) {
    flow.status = FlowStatus::kUnroutable;
    return;
  }
  flow.key.source = *source;
  flow.key.destination = *destination;
  flow.key.protocol = options_.fabric_hashes_protocol ? flow.protocol : wire::kProtocolUdp;
  flow.key.destination_qpn = options_.fabric_hashes_qpn ? flow.remote_qpn : 0;
  flow.source_leaf = from->leaf;
  flow.destination_leaf = to->leaf;
  if (from->leaf == to->leaf) {
    flow.status = FlowStatus::kLocal;
    return;
  }
  state_.by_key[flow.key].insert(slot);
  if (steered && flow.own_port != 0 && state_.ports.Take(flow.key, flow.own_port)) {
    flow.port = flow.own_port;
    SetStatus(slot, FlowStatus::kAdopting);
    if (!Adopt(slot)) learner_.Verify(flow.key, flow.port);
    return;
  }
  SetStatus(slot, FlowStatus::kNew);
}

void Placement::Release(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  SetPath(flow, std::nullopt);
  if (flow.port != 0) state_.ports.Release(flow.key, flow.port);
  flow.port = 0;
  const auto found = state_.by_key.find(flow.key);
  if (found == state_.by_key.end()) return;
  found->second.erase(slot);
  if (found->second.empty()) state_.by_key.erase(found);
}

void Placement::SetStatus(FlowSlot slot, FlowStatus status) {
  Flow& flow = state_.flows.At(slot);
  if (flow.status == status && status != FlowStatus::kNew) return;
  if (status == FlowStatus::kNew) state_.unplaced.push_back(slot);
  flow.status = status;
}

void Placement::SetPath(Flow& flow, std::optional<PathIndex> path) {
  if (flow.path == path) return;
  const auto paths = state_.PathsOf(flow);
  if (flow.path) state_.loads.Remove(paths[flow.path->Index()]);
  if (path) state_.loads.Add(paths[path->Index()]);
  flow.path = path;
}

void Placement::SetPort(Flow& flow, std::uint16_t port, PathReason reason) {
  if (flow.port != port) {
    if (flow.port != 0) state_.ports.Release(flow.key, flow.port);
    if (port != 0) state_.ports.Take(flow.key, port);
    flow.port = port;
  }
  flow.reason = reason;
  MarkDirty(flow);
}

void Placement::MarkDirty(Flow& flow) {
  if (flow.dirty) return;
  flow.dirty = true;
  state_.agents.At(flow.agent).dirty.push_back(flow.local);
  state_.agents.QueuePush(flow.agent);
}

void Placement::ChoosePortFor(FlowSlot slot, PathReason reason) {
  Flow& flow = state_.flows.At(slot);
  const PortNeed need = flow.urgent ? PortNeed::kUrgent : PortNeed::kSure;
  const auto choose = [&] {
    return ChoosePort(state_.path_map, flow.key, *flow.path, state_.ports, need,
                      flow.port != 0 ? 0 : flow.own_port);
  };
  auto entry = choose();
  if (!entry && learner_.Want(flow.key, *flow.path)) entry = choose();
  if (!entry) {
    // A flow that was routed stays on ECMP until a port is known: its old port leads elsewhere.
    if (flow.port != 0) SetPort(flow, 0, reason);
    flow.reason = reason;
    SetStatus(slot, FlowStatus::kLearning);
    return;
  }
  SetPort(flow, entry->port, reason);
  flow.urgent = false;
  SetStatus(slot, FlowStatus::kRouted);
  if (entry->trust != fabric::PortTrust::kVerified) learner_.Verify(flow.key, entry->port);
}

std::vector<FlowSlot> Placement::InOrder(std::vector<FlowSlot> slots) const {
  const auto rank = [&](FlowSlot slot) {
    const Flow& flow = state_.flows.At(slot);
    return std::tie(state_.flows.JobName(flow.job), state_.agents.At(flow.agent).name, flow.local);
  };
  std::sort(slots.begin(), slots.end(), [&](FlowSlot a, FlowSlot b) { return rank(a) < rank(b); });
  return slots;
}

std::size_t Placement::PlaceNew() {
  std::vector<FlowSlot> slots;
  for (const FlowSlot slot : std::exchange(state_.unplaced, {})) {
    if (state_.flows.IsOpen(slot) && state_.flows.At(slot).status == FlowStatus::kNew) {
      slots.push_back(slot);
    }
  }
  slots = InOrder(std::move(slots));
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());

  std::vector<std::span<const fabric::Path>> commodities;
  commodities.reserve(slots.size());
  for (const FlowSlot slot : slots) commodities.push_back(state_.PathsOf(state_.flows.At(slot)));
  const auto assignment = AssignGreedy(state_.topology, commodities, state_.loads);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Flow& flow = state_.flows.At(slots[i]);
    flow.path = assignment[i];  // the loads have it already
    if (flow.path) {
      ChoosePortFor(slots[i], PathReason::kAssigned);
    } else {
      SetStatus(slots[i], FlowStatus::kUnroutable);
    }
  }
  return slots.size();
}

bool Placement::Adopt(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  const auto entry = state_.path_map.Find(flow.key, flow.port);
  if (!entry || entry->trust == fabric::PortTrust::kReverify) return false;
  if (!fabric::IsAlive(state_.topology, state_.PathsOf(flow)[entry->path.Index()])) {
    state_.ports.Release(flow.key, flow.port);
    flow.port = 0;
    flow.urgent = true;
    SetStatus(slot, FlowStatus::kNew);
    return true;
  }
  SetPath(flow, entry->path);
  SetPort(flow, flow.port, flow.reason);
  SetStatus(slot, FlowStatus::kRouted);
  return true;
}

void Placement::Revisit(const fabric::PortKey& key) {
  const auto found = state_.by_key.find(key);
  if (found == state_.by_key.end()) return;
  for (const FlowSlot slot : found->second) {
    Flow& flow = state_.flows.At(slot);
    if (flow.status == FlowStatus::kAdopting) {
      Adopt(slot);
    } else if (flow.status == FlowStatus::kLearning) {
      ChoosePortFor(slot, flow.reason);
    } else if (flow.status == FlowStatus::kRouted) {
      const auto entry = state_.path_map.Find(key, flow.port);
      if (entry && entry->path != flow.path) ChoosePortFor(slot, PathReason::kRemapped);
    }
  }
}

void Placement::EndAdoption(AgentId agent) {
  for (const FlowSlot slot : state_.flows.OfAgent(agent)) {
    Flow& flow = state_.flows.At(slot);
    if (flow.status != FlowStatus::kAdopting) continue;
    state_.ports.Release(flow.key, flow.port);
    flow.port = 0;
    SetStatus(slot, FlowStatus::kNew);
  }
}

std::string Placement::Via(const Flow& flow, std::optional<PathIndex> path) {
  return path ? fabric::ViaNames(state_.topology, state_.PathsOf(flow)[path->Index()]) : "";
}

std::vector<FlowMove> Placement::MoveOffUnusable() {
  std::vector<FlowSlot> broken;
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (!flow.path) continue;
    if (!fabric::IsUsable(state_.topology, state_.PathsOf(flow)[flow.path->Index()])) {
      broken.push_back(slot);
    }
  }
  broken = InOrder(std::move(broken));
  std::vector<std::optional<PathIndex>> before;
  for (const FlowSlot slot : broken) {
    Flow& flow = state_.flows.At(slot);
    before.push_back(flow.path);
    flow.urgent = !fabric::IsAlive(state_.topology, state_.PathsOf(flow)[flow.path->Index()]);
    SetPath(flow, std::nullopt);
  }
  std::vector<FlowMove> moves;
  for (std::size_t i = 0; i < broken.size(); ++i) {
    Flow& flow = state_.flows.At(broken[i]);
    SetPath(flow, ChooseLeastLoaded(state_.topology, state_.PathsOf(flow), state_.loads));
    if (flow.path) {
      ChoosePortFor(broken[i], flow.urgent ? PathReason::kPathDead : PathReason::kRecomputed);
    } else {
      if (flow.port != 0) SetPort(flow, 0, PathReason::kPathDead);
      SetStatus(broken[i], FlowStatus::kUnroutable);
    }
    moves.push_back({state_.FlowName(flow), state_.flows.JobName(flow.job), Via(flow, before[i]),
                     Via(flow, flow.path)});
  }
  return moves;
}

void Placement::RetryUnroutable() {
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    const bool ends_known = flow.source_leaf != flow.destination_leaf;
    if (flow.status == FlowStatus::kUnroutable && ends_known) SetStatus(slot, FlowStatus::kNew);
  }
}

std::vector<FlowMove> Placement::Recompute(bool dry_run) {
  std::vector<FlowSlot> slots;
  std::vector<std::span<const fabric::Path>> commodities;
  for (const FlowSlot slot : state_.flows.All()) {
    if (state_.flows.At(slot).path) slots.push_back(slot);
  }
  slots = InOrder(std::move(slots));
  for (const FlowSlot slot : slots) commodities.push_back(state_.PathsOf(state_.flows.At(slot)));
  LinkLoads loads(state_.topology.links().size());
  const auto assignment = AssignGreedy(state_.topology, commodities, loads);

  std::vector<FlowMove> moves;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Flow& flow = state_.flows.At(slots[i]);
    if (assignment[i] == flow.path) continue;
    moves.push_back({state_.FlowName(flow), state_.flows.JobName(flow.job), Via(flow, flow.path),
                     Via(flow, assignment[i])});
    if (dry_run) continue;
    SetPath(flow, assignment[i]);
    if (flow.path) {
      ChoosePortFor(slots[i], PathReason::kRecomputed);
    } else {
      if (flow.port != 0) SetPort(flow, 0, PathReason::kRecomputed);
      SetStatus(slots[i], FlowStatus::kUnroutable);
    }
  }
  return moves;
}

void Placement::HandleRedraw(FlowSlot slot, std::uint16_t port) {
  Flow& flow = state_.flows.At(slot);
  if (flow.status != FlowStatus::kRouted && flow.status != FlowStatus::kLearning) return;
  if (!state_.ports.Take(flow.key, port)) return;
  if (flow.port != 0) state_.ports.Release(flow.key, flow.port);
  flow.port = port;
  SetPath(flow, std::nullopt);
  SetStatus(slot, FlowStatus::kAdopting);
  if (!Adopt(slot)) learner_.Verify(flow.key, port);
}

}  // namespace espalier::controller
