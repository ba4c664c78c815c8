#include "controller/placement/port_binder.h"

#include <algorithm>

namespace espalier::controller {

using fabric::PathIndex;
using wire::PathReason;

void PortBinder::SetPort(FlowSlot slot, FlowWay& way, std::uint16_t port) {
  const fabric::PortKey& key = state_.flows.At(slot).key;
  if (way.port != 0) state_.flow_paths.ReleasePort(key, way.port);
  if (port != 0) state_.flow_paths.TakePort(key, port);
  way.port = port;
  state_.pushes.MarkFlow(slot);
}

bool PortBinder::LeadsToItsPath(const Flow& flow, const FlowWay& way) const {
  if (way.port == 0) return false;
  const auto entry = state_.path_map.Find(flow.key, way.port);
  return entry && entry->path == state_.flow_paths.PathOf(way);
}

std::optional<fabric::PortEntry> PortBinder::FindPort(const Flow& flow, const FlowWay& way,
                                                      std::uint16_t preferred) {
  const PathIndex path = *state_.flow_paths.PathOf(way);
  const PortNeed need = way.urgent ? PortNeed::kUrgent : PortNeed::kSure;
  const auto choose = [&] {
    return ChoosePort(state_.path_map, flow.key, path, state_.flow_paths.ports(), need, preferred);
  };
  auto entry = choose();
  if (!entry && learner_.Want(flow.key, path)) entry = choose();
  return entry;
}

void PortBinder::ChoosePorts(FlowSlot slot, PathReason reason) {
  Flow& flow = state_.flows.At(slot);
  const bool has_none =
      std::ranges::none_of(flow.ways, [](const FlowWay& way) { return way.port != 0; });
  bool complete = true;
  flow.reason = reason;
  for (FlowWay& way : flow.ways) {
    if (LeadsToItsPath(flow, way)) {
      way.urgent = false;
      continue;
    }
    const bool may_keep_its_own = has_none && &way == &flow.ways.front();
    const auto entry = FindPort(flow, way, may_keep_its_own ? flow.own_port : 0);
    if (entry) {
      SetPort(slot, way, entry->port);
      way.port_path = entry->path;
      way.urgent = false;
      if (entry->trust != fabric::PortTrust::kVerified) learner_.Verify(flow.key, entry->port);
      continue;
    }
    complete = false;
    // Rather ECMP than a path that is dead.
    if (way.urgent && way.port != 0) SetPort(slot, way, 0);
  }
  state_.flows.SetStatus(slot, complete ? FlowStatus::kRouted : FlowStatus::kLearning);
}

void PortBinder::Settle(FlowSlot slot, PathReason reason) {
  Flow& flow = state_.flows.At(slot);
  if (state_.flow_paths.PathOf(flow.ways.front())) return ChoosePorts(slot, reason);
  for (FlowWay& way : flow.ways) {
    if (way.port != 0) SetPort(slot, way, 0);
  }
  flow.reason = reason;
  state_.flows.SetStatus(slot, FlowStatus::kUnroutable);
}

bool PortBinder::LeavePortsGivenUp(Flow& flow) {
  bool has_one = false;
  for (FlowWay& way : flow.ways) {
    if (way.port == 0 || !learner_.HasGivenUp(flow.key, way.port)) continue;
    way.urgent = true;  // as good as dead
    has_one = true;
  }
  return has_one;
}

void PortBinder::Revisit(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  bool leads_elsewhere = LeavePortsGivenUp(flow);
  if (flow.status == FlowStatus::kLearning) return ChoosePorts(slot, flow.reason);
  for (FlowWay& way : flow.ways) {
    const auto entry = state_.path_map.Find(flow.key, way.port);
    if (!entry || entry->path == way.port_path) continue;
    way.port_path = entry->path;
    leads_elsewhere = true;
  }
  if (leads_elsewhere) ChoosePorts(slot, PathReason::kRemapped);
}

bool PortBinder::TakePort(Flow& flow, FlowWay& way, const FailurePlans::Escape& escape) {
  const PathIndex path(escape.path);
  if (escape.port == 0) return false;
  if (!escape.leads_there) {
    const auto entry = state_.path_map.Find(flow.key, escape.port);
    if (!entry || entry->path != path) return false;
  }
  if (!state_.flow_paths.ExchangePort(flow.key, way.port, escape.port)) return false;
  way.port = escape.port;
  way.port_path = path;
  way.urgent = false;
  return true;
}

void PortBinder::Verify(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (flow.status != FlowStatus::kRouted) return;
  for (const FlowWay& way : flow.ways) {
    const auto entry = state_.path_map.Find(flow.key, way.port);
    if (entry && entry->trust != fabric::PortTrust::kVerified) {
      learner_.Verify(flow.key, way.port);
    }
  }
}

}  // namespace espalier::controller
