#include "controller/placement/ports/port_binder.h"

#include <algorithm>
#include <utility>

#include "controller/placement/ports/reachable_paths.h"

namespace espalier::controller {

using fabric::PathIndex;
using wire::PathReason;

namespace {

// Ports of one path that are tried for one whose acknowledgements come back alive.
constexpr int kMostPortsForReturn = 8;

}  // namespace

// Problem: a subflow's path is decided, but only the path map knows which port takes it, and the
// map may know none yet. Until a port is known, the subflow should be on the best port available.
// Idea: an unchanged port that already takes the path stays. Else the map offers a free port of the
// path, or a hash model predicts one; if neither does, the learner probes and Revisit tries again
// when the map has changed. Meanwhile the subflow keeps its earlier port, if the path of that port
// is alive, and else has no port and falls back to ECMP.
// Invariant: `port` is taken under the flow's key in FlowPaths, and `port_path` is the path of that
// port, which may differ from the decided path while the flow is kLearning.
// Cost: O(ports that the map knows for the key) per subflow.

bool PortBinder::LeadsToItsPath(const Flow& flow, const Subflow& subflow) const {
  if (subflow.port == 0) return false;
  const auto entry = state_.path_map.Find(flow.key, subflow.port);
  return entry && entry->path == state_.flow_paths.PathOf(subflow);
}

PortBinder::ReturnPathRisk PortBinder::RiskOf(const Flow& flow, std::uint16_t port,
                                              std::span<const PathIndex> avoided) const {
  if (flow.protocol != wire::kProtocolTcp) return ReturnPathRisk::kNone;
  ReturnPathRisk risk = ReturnPathRisk::kNone;
  if (returns_.HasDeadLink()) {
    const auto fate = returns_.FateOf(flow.key, port);
    if (fate == ReturnPaths::Fate::kDead) return ReturnPathRisk::kHigh;
    if (fate == ReturnPaths::Fate::kUnknown) risk = ReturnPathRisk::kUnknown;
  }
  if (avoided.empty()) return risk;
  const auto back = returns_.PathOf(flow.key, port);
  if (!back) return ReturnPathRisk::kUnknown;
  return std::ranges::find(avoided, *back) != avoided.end() ? ReturnPathRisk::kHigh : risk;
}

std::vector<PathIndex> PortBinder::ReturnsAtRisk(const Flow& flow, const Subflow& subflow) const {
  std::vector<PathIndex> returns;
  const auto own = returns_.Of(flow, subflow.port);
  if (!own) return returns;
  returns.push_back(*own);
  const auto reverse =
      state_.paths.Opposite(flow.source_leaf, flow.destination_leaf, subflow.port_path);
  if (reverse) returns.push_back(*reverse);
  return returns;
}

void PortBinder::AskReturns(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (flow.protocol != wire::kProtocolTcp || !learner_.CanProbe(flow.key)) return;
  for (const Subflow& subflow : flow.subflows) {
    returns_.Ask(flow.key, subflow.port);
    returns_.Ask(flow.key, subflow.standby_port);
  }
  returns_.AskSpares(flow.key);
}

std::optional<fabric::PortEntry> PortBinder::FindKnownPort(
    const Flow& flow, PathIndex path, PortNeed need, std::uint16_t preferred,
    std::span<const PathIndex> avoided) const {
  return controller::ChoosePort(
      state_.path_map, flow.key, path, state_.flow_paths.ports(), need, preferred,
      [&](std::uint16_t port) { return static_cast<int>(RiskOf(flow, port, avoided)); });
}

std::optional<fabric::PortEntry> PortBinder::FindPort(const Flow& flow, PathIndex path,
                                                      PortNeed need, std::uint16_t preferred,
                                                      std::span<const PathIndex> avoided) {
  const auto choose = [&] { return FindKnownPort(flow, path, need, preferred, avoided); };
  auto entry = choose();
  // Each request makes one more port known, if a model predicts any.
  for (int left = kMostPortsForReturn; left > 0; --left) {
    const bool is_enough = entry && RiskOf(flow, entry->port, avoided) < ReturnPathRisk::kHigh;
    const auto port = is_enough ? std::nullopt : learner_.RequestPort(flow.key, path);
    if (!port) break;
    const bool is_taken = state_.flow_paths.ports().IsTaken(flow.key, *port);
    if (!entry && !is_taken && RiskOf(flow, *port, avoided) == ReturnPathRisk::kNone) {
      // It is the only free one, and is about to be taken.
      state_.flow_paths.ports().RememberNone(state_.path_map, flow.key, path, need);
      entry = state_.path_map.Find(flow.key, *port);
      break;
    }
    entry = choose();
  }
  if (entry) returns_.AskFor(flow, entry->port);
  return entry;
}

void PortBinder::ChoosePorts(FlowSlot slot, PathReason reason) {
  const Flow& flow = state_.flows.At(slot);
  const bool has_none =
      std::ranges::none_of(flow.subflows, [](const Subflow& subflow) { return subflow.port != 0; });
  bool is_complete = true;
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    if (!ChoosePort(slot, i, has_none)) is_complete = false;
  }
  decisions_.FinishPorts(slot, reason, is_complete);
}

bool PortBinder::ChoosePort(FlowSlot slot, std::uint32_t index, bool has_none) {
  const Flow& flow = state_.flows.At(slot);
  const Subflow& subflow = flow.subflows[index];
  PortDecisions& ports = decisions_.ports();
  const auto keep = [&] {
    ports.SetUrgent(slot, index, false);
    return true;
  };
  const bool leads_there = LeadsToItsPath(flow, subflow);
  if (leads_there && !returns_.IsDead(flow, subflow.port)) return keep();
  const std::uint16_t own_port = has_none && index == 0 ? flow.own_port : std::uint16_t{0};
  const auto find = [&] {
    const std::uint16_t standby = TakeOverStandby(slot, index);
    return FindPort(flow, *state_.flow_paths.PathOf(subflow),
                    subflow.urgent ? PortNeed::kUrgent : PortNeed::kSure,
                    standby != 0 ? standby : own_port);
  };
  auto entry = find();
  // No port of the path is better.
  if (leads_there && (!entry || returns_.IsDead(flow, entry->port))) return keep();
  if (!entry && LeaveUnreachablePath(slot, index)) {
    if (LeadsToItsPath(flow, subflow)) return keep();  // an assignment had moved it off its path
    entry = find();
  }
  if (!entry) {
    // ECMP is better than a dead path.
    if (subflow.urgent && subflow.port != 0) ports.Drop(slot, index);
    return false;
  }
  ports.Set(slot, index, entry->port, entry->path);
  if (entry->trust != fabric::PortTrust::kVerified) learner_.Verify(flow.key, entry->port);
  return true;
}

bool PortBinder::LeaveUnreachablePath(FlowSlot slot, std::uint32_t index) {
  const Flow& flow = state_.flows.At(slot);
  const Subflow& subflow = flow.subflows[index];
  const bool stays = state_.flow_paths.IsParked(subflow) ||
                     !IsUnreachable(state_, flow, state_.flow_paths.PathOf(*subflow.id));
  return !stays && MoveToReachablePath(state_, decisions_, slot, index);
}

std::uint16_t PortBinder::TakeOverStandby(FlowSlot slot, std::uint32_t index) {
  const Subflow& subflow = state_.flows.At(slot).subflows[index];
  const std::uint16_t port = subflow.standby_port;
  if (port == 0 || state_.flow_paths.PathOf(subflow) != PathIndex(subflow.standby_path)) return 0;
  decisions_.ports().SetStandby(slot, index, kNoPath);
  return port;
}

bool PortBinder::BindStandby(FlowSlot slot, std::uint32_t index) {
  const Flow& flow = state_.flows.At(slot);
  const Subflow& subflow = flow.subflows[index];
  const PathIndex path(subflow.standby_path);
  const std::vector<PathIndex> avoided = ReturnsAtRisk(flow, subflow);
  const std::uint16_t before = subflow.standby_port;
  if (before != 0) {
    const auto entry = state_.path_map.Find(flow.key, before);
    const bool leads_there = entry && entry->path == path;
    if (leads_there && !learner_.IsQuarantined(flow.key, before)) {
      if (RiskOf(flow, before, avoided) < ReturnPathRisk::kHigh) return false;
      const auto better = FindKnownPort(flow, path, PortNeed::kSure, 0, avoided);
      if (!better || RiskOf(flow, better->port, avoided) == ReturnPathRisk::kHigh) {
        const auto known =
            std::ranges::count(state_.path_map.Ports(flow.key), path, &fabric::PortEntry::path);
        if (known < kMostPortsForReturn) learner_.RequestPort(flow.key, path);
        return false;
      }
    }
    decisions_.ports().SetStandbyPort(slot, index, 0);
  }
  if (const auto entry = FindPort(flow, path, PortNeed::kSure, 0, avoided)) {
    decisions_.ports().SetStandbyPort(slot, index, entry->port);
    if (entry->trust != fabric::PortTrust::kVerified) learner_.Verify(flow.key, entry->port);
  }
  return subflow.standby_port != before;
}

void PortBinder::Settle(FlowSlot slot, PathReason reason) {
  const Subflow& first = state_.flows.At(slot).subflows.front();
  if (state_.flow_paths.PathOf(first)) return ChoosePorts(slot, reason);
  decisions_.MarkUnroutable(slot, reason);
}

bool PortBinder::LeaveQuarantinedPorts(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  bool has_one = false;
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    const std::uint16_t port = flow.subflows[i].port;
    if (port == 0 || !learner_.IsQuarantined(flow.key, port)) continue;
    decisions_.ports().SetUrgent(slot, i, true);  // treat its path as dead
    has_one = true;
  }
  return has_one;
}

void PortBinder::Revisit(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  bool leads_elsewhere = LeaveQuarantinedPorts(slot);
  if (flow.status == FlowStatus::kLearning) return ChoosePorts(slot, flow.reason);
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    const auto entry = state_.path_map.Find(flow.key, flow.subflows[i].port);
    if (!entry || entry->path == flow.subflows[i].port_path) continue;
    decisions_.ports().Correct(slot, i, entry->path);
    leads_elsewhere = true;
  }
  if (leads_elsewhere) ChoosePorts(slot, PathReason::kRemapped);
}

bool PortBinder::TakePort(FlowSlot slot, std::uint32_t index,
                          const FailurePlans::BackupPath& backup) {
  const Flow& flow = state_.flows.At(slot);
  const PathIndex path(backup.path);
  if (backup.port == 0) return false;
  if (!backup.leads_there) {
    const auto entry = state_.path_map.Find(flow.key, backup.port);
    if (!entry || entry->path != path) return false;
  }
  if (returns_.IsDead(flow, backup.port)) return false;
  return decisions_.ports().Exchange(slot, index, backup.port, path);
}

void PortBinder::Verify(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (flow.status != FlowStatus::kRouted) return;
  for (const Subflow& subflow : flow.subflows) {
    const auto entry = state_.path_map.Find(flow.key, subflow.port);
    if (entry && entry->trust != fabric::PortTrust::kVerified) {
      learner_.Verify(flow.key, subflow.port);
    }
  }
}

}  // namespace espalier::controller
