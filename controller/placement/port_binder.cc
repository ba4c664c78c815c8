#include "controller/placement/port_binder.h"

#include <algorithm>
#include <utility>

#include "controller/paths/return_key.h"
#include "controller/placement/reachable_paths.h"

namespace espalier::controller {

using fabric::PathIndex;
using wire::PathReason;

namespace {

// Ports of one path that are tried for one whose acknowledgements come back alive.
constexpr int kMostPortsForReturn = 8;

// Whether a subflow whose path no port takes has got another one. Parked subflows keep their path.
bool LeaveUnreachablePath(State& state, const Flow& flow, const Subflow& subflow) {
  const bool stays = state.flow_paths.IsParked(subflow) ||
                     !IsUnreachable(state, flow, state.flow_paths.PathOf(*subflow.id));
  return !stays && MoveToReachablePath(state, flow, subflow);
}

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

void PortBinder::SetPort(FlowSlot slot, Subflow& subflow, std::uint16_t port) {
  const fabric::PortKey& key = state_.flows.At(slot).key;
  if (subflow.port != 0) state_.flow_paths.ReleasePort(key, subflow.port);
  if (port != 0) state_.flow_paths.TakePort(key, port);
  subflow.port = port;
  state_.pushes.MarkFlow(slot);
}

bool PortBinder::LeadsToItsPath(const Flow& flow, const Subflow& subflow) const {
  if (subflow.port == 0) return false;
  const auto entry = state_.path_map.Find(flow.key, subflow.port);
  return entry && entry->path == state_.flow_paths.PathOf(subflow);
}

bool PortBinder::HasDeadLink() {
  if (std::exchange(seen_version_, state_.topology.version()) != state_.topology.version()) {
    has_dead_link_ = std::ranges::any_of(state_.topology.links(), [](const fabric::Link& link) {
      return link.state == fabric::LinkState::kDown;
    });
  }
  return has_dead_link_;
}

bool PortBinder::HasDeadReturn(const Flow& flow, std::uint16_t port) {
  if (flow.protocol != wire::kProtocolTcp || port == 0 || !HasDeadLink()) return false;
  return returns_.FateOf(flow.key, port) == ReturnPaths::Fate::kDead;
}

int PortBinder::DoubtOf(const Flow& flow, std::uint16_t port, std::span<const PathIndex> avoided) {
  if (flow.protocol != wire::kProtocolTcp) return 0;
  int doubt = 0;
  if (HasDeadLink()) {
    const auto fate = returns_.FateOf(flow.key, port);
    if (fate >= ReturnPaths::Fate::kUnknown) doubt = fate == ReturnPaths::Fate::kDead ? 2 : 1;
  }
  if (avoided.empty() || doubt == 2) return doubt;
  const auto back = returns_.PathOf(flow.key, port);
  if (!back) return 1;
  return std::ranges::find(avoided, *back) != avoided.end() ? 2 : doubt;
}

std::vector<PathIndex> PortBinder::ReturnsAtRisk(const Flow& flow, const Subflow& subflow) const {
  std::vector<PathIndex> returns;
  const auto own = ReturnOf(flow, subflow.port);
  if (!own) return returns;
  returns.push_back(*own);
  const auto reverse =
      state_.paths.Opposite(flow.source_leaf, flow.destination_leaf, subflow.port_path);
  if (reverse) returns.push_back(*reverse);
  return returns;
}

std::optional<PathIndex> PortBinder::ReturnOf(const Flow& flow, std::uint16_t port) const {
  if (flow.protocol != wire::kProtocolTcp || port == 0) return std::nullopt;
  return returns_.PathOf(flow.key, port);
}

void PortBinder::AskReturns(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (flow.protocol != wire::kProtocolTcp || !PathLearner::CanProbe(flow.key)) return;
  for (const Subflow& subflow : flow.subflows) {
    returns_.Ask(flow.key, subflow.port);
    returns_.Ask(flow.key, subflow.standby_port);
  }
  returns_.AskSpares(flow.key);
}

void PortBinder::AskReturn(const Flow& flow, std::uint16_t port) {
  if (flow.protocol == wire::kProtocolTcp) returns_.Ask(flow.key, port);
}

std::optional<fabric::PortEntry> PortBinder::FindKnownPort(const Flow& flow, PathIndex path,
                                                           PortNeed need, std::uint16_t preferred,
                                                           std::span<const PathIndex> avoided) {
  return ChoosePort(state_.path_map, flow.key, path, state_.flow_paths.ports(), need, preferred,
                    [&](std::uint16_t port) { return DoubtOf(flow, port, avoided); });
}

std::optional<fabric::PortEntry> PortBinder::FindPort(const Flow& flow, PathIndex path,
                                                      PortNeed need, std::uint16_t preferred,
                                                      std::span<const PathIndex> avoided) {
  const auto choose = [&] { return FindKnownPort(flow, path, need, preferred, avoided); };
  auto entry = choose();
  // Each request makes one more port known, if a model predicts any.
  for (int left = kMostPortsForReturn; left > 0; --left) {
    const bool is_enough = entry && DoubtOf(flow, entry->port, avoided) < 2;
    const auto port = is_enough ? std::nullopt : learner_.RequestPort(flow.key, path);
    if (!port) break;
    const bool is_taken = state_.flow_paths.ports().IsTaken(flow.key, *port);
    if (!entry && !is_taken && DoubtOf(flow, *port, avoided) == 0) {
      // It is the only free one, and is about to be taken.
      state_.flow_paths.ports().RememberNone(state_.path_map, flow.key, path, need);
      entry = state_.path_map.Find(flow.key, *port);
      break;
    }
    entry = choose();
  }
  if (entry) AskReturn(flow, entry->port);
  return entry;
}

void PortBinder::HandleLinkChange() {
  to_look_at_ = state_.flows.All();
  std::erase_if(to_look_at_, [&](FlowSlot slot) {
    return state_.flows.At(slot).protocol != wire::kProtocolTcp;
  });
}

void PortBinder::HandleReturn(const fabric::PortKey& back) {
  if (!HasDeadLink()) return;
  for (const fabric::PortEntry& entry : state_.path_map.Ports(back)) {
    const auto flows = state_.flow_paths.pairs().find(ReturnKeyOf(back, entry.port));
    if (flows == state_.flow_paths.pairs().end()) continue;
    for (const FlowSlot slot : flows->second) {
      const Flow& flow = state_.flows.At(slot);
      const bool has_port = std::ranges::any_of(flow.subflows, [&](const Subflow& subflow) {
        return subflow.port == back.destination_port;
      });
      if (has_port && flow.protocol == wire::kProtocolTcp) to_look_at_.push_back(slot);
    }
  }
  LeaveDeadReturns();
}

void PortBinder::LeaveDeadReturns() {
  for (std::size_t left = kReturnsAtOnce; left > 0 && !to_look_at_.empty(); --left) {
    const FlowSlot slot = to_look_at_.back();
    to_look_at_.pop_back();
    if (!state_.flows.IsOpen(slot)) continue;
    Flow& flow = state_.flows.At(slot);
    if (flow.status != FlowStatus::kRouted || !flow.CanMove()) continue;
    bool is_dead = false;
    for (Subflow& subflow : flow.subflows) {
      AskReturn(flow, subflow.port);
      if (!HasDeadReturn(flow, subflow.port)) continue;
      subflow.urgent = is_dead = true;
    }
    if (is_dead) ChoosePorts(slot, PathReason::kPathDead);
  }
}

void PortBinder::ChoosePorts(FlowSlot slot, PathReason reason) {
  Flow& flow = state_.flows.At(slot);
  const bool has_none =
      std::ranges::none_of(flow.subflows, [](const Subflow& subflow) { return subflow.port != 0; });
  bool complete = true;
  flow.reason = reason;
  for (Subflow& subflow : flow.subflows) {
    const bool leads_there = LeadsToItsPath(flow, subflow);
    if (leads_there && !HasDeadReturn(flow, subflow.port)) {
      subflow.urgent = false;
      continue;
    }
    const bool may_keep_its_own = has_none && &subflow == &flow.subflows.front();
    const std::uint16_t own_port = may_keep_its_own ? flow.own_port : std::uint16_t{0};
    const auto find = [&] {
      const std::uint16_t standby = TakeOverStandby(slot, subflow);
      return FindPort(flow, *state_.flow_paths.PathOf(subflow),
                      subflow.urgent ? PortNeed::kUrgent : PortNeed::kSure,
                      standby != 0 ? standby : own_port);
    };
    auto entry = find();
    if (leads_there && (!entry || HasDeadReturn(flow, entry->port))) {
      subflow.urgent = false;  // no port of the path is better
      continue;
    }
    if (!entry && LeaveUnreachablePath(state_, flow, subflow)) {
      if (LeadsToItsPath(flow, subflow)) {  // an assignment had moved it off its path
        subflow.urgent = false;
        continue;
      }
      entry = find();
    }
    if (entry) {
      SetPort(slot, subflow, entry->port);
      subflow.port_path = entry->path;
      subflow.urgent = false;
      if (entry->trust != fabric::PortTrust::kVerified) learner_.Verify(flow.key, entry->port);
      continue;
    }
    complete = false;
    // ECMP is better than a dead path.
    if (subflow.urgent && subflow.port != 0) SetPort(slot, subflow, 0);
  }
  state_.flows.SetStatus(slot, complete ? FlowStatus::kRouted : FlowStatus::kLearning);
}

std::uint16_t PortBinder::TakeOverStandby(FlowSlot slot, Subflow& subflow) {
  const std::uint16_t port = subflow.standby_port;
  if (port == 0 || state_.flow_paths.PathOf(subflow) != PathIndex(subflow.standby_path)) return 0;
  ReleaseStandby(slot, subflow);
  return port;
}

bool PortBinder::BindStandby(FlowSlot slot, std::uint32_t index) {
  const Flow& flow = state_.flows.At(slot);
  Subflow& subflow = state_.flows.At(slot).subflows[index];
  const PathIndex path(subflow.standby_path);
  const std::vector<PathIndex> avoided = ReturnsAtRisk(flow, subflow);
  if (subflow.standby_port != 0) {
    const auto entry = state_.path_map.Find(flow.key, subflow.standby_port);
    const bool leads_there = entry && entry->path == path;
    if (leads_there && !learner_.IsQuarantined(flow.key, subflow.standby_port)) {
      if (DoubtOf(flow, subflow.standby_port, avoided) < 2) return false;
      const auto better = FindKnownPort(flow, path, PortNeed::kSure, 0, avoided);
      if (!better || DoubtOf(flow, better->port, avoided) == 2) {
        const auto known =
            std::ranges::count(state_.path_map.Ports(flow.key), path, &fabric::PortEntry::path);
        if (known < kMostPortsForReturn) learner_.RequestPort(flow.key, path);
        return false;
      }
    }
    state_.flow_paths.ReleasePort(flow.key, subflow.standby_port);
  }
  const std::uint16_t before = std::exchange(subflow.standby_port, 0);
  if (const auto entry = FindPort(flow, path, PortNeed::kSure, 0, avoided)) {
    subflow.standby_port = entry->port;
    state_.flow_paths.TakePort(flow.key, entry->port);
    if (entry->trust != fabric::PortTrust::kVerified) learner_.Verify(flow.key, entry->port);
  }
  return subflow.standby_port != before;
}

void PortBinder::ReleaseStandby(FlowSlot slot, Subflow& subflow) {
  if (subflow.standby_port != 0) {
    state_.flow_paths.ReleasePort(state_.flows.At(slot).key, subflow.standby_port);
  }
  subflow.standby_port = 0;
  subflow.standby_path = kNoPath;
}

void PortBinder::Settle(FlowSlot slot, PathReason reason) {
  Flow& flow = state_.flows.At(slot);
  if (state_.flow_paths.PathOf(flow.subflows.front())) return ChoosePorts(slot, reason);
  for (Subflow& subflow : flow.subflows) {
    if (subflow.port != 0) SetPort(slot, subflow, 0);
  }
  flow.reason = reason;
  state_.flows.SetStatus(slot, FlowStatus::kUnroutable);
}

bool PortBinder::LeaveQuarantinedPorts(Flow& flow) {
  bool has_one = false;
  for (Subflow& subflow : flow.subflows) {
    if (subflow.port == 0 || !learner_.IsQuarantined(flow.key, subflow.port)) continue;
    subflow.urgent = true;  // treat its path as dead
    has_one = true;
  }
  return has_one;
}

void PortBinder::Revisit(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  bool leads_elsewhere = LeaveQuarantinedPorts(flow);
  if (flow.status == FlowStatus::kLearning) return ChoosePorts(slot, flow.reason);
  for (Subflow& subflow : flow.subflows) {
    const auto entry = state_.path_map.Find(flow.key, subflow.port);
    if (!entry || entry->path == subflow.port_path) continue;
    subflow.port_path = entry->path;
    leads_elsewhere = true;
  }
  if (leads_elsewhere) ChoosePorts(slot, PathReason::kRemapped);
}

bool PortBinder::TakePort(Flow& flow, Subflow& subflow, const FailurePlans::BackupPath& backup) {
  const PathIndex path(backup.path);
  if (backup.port == 0) return false;
  if (!backup.leads_there) {
    const auto entry = state_.path_map.Find(flow.key, backup.port);
    if (!entry || entry->path != path) return false;
  }
  if (HasDeadReturn(flow, backup.port)) return false;
  if (!state_.flow_paths.ExchangePort(flow.key, subflow.port, backup.port)) return false;
  subflow.port = backup.port;
  subflow.port_path = path;
  subflow.urgent = false;
  return true;
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
