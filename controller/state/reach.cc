#include "controller/state/reach.h"

#include <algorithm>

#include "common/base/enum_names.h"

namespace espalier::controller {
namespace {

Reach ReachOver(const fabric::Topology& topology, const fabric::Path& path) {
  if (!fabric::IsAlive(topology, path)) return Reach::kOnDeadLink;
  return fabric::IsUsable(topology, path) ? Reach::kFine : Reach::kOnDrainedLink;
}

}  // namespace

std::string_view ReachName(Reach reach) {
  static constexpr EnumNames<Reach> kReachNames({
      {Reach::kFine, "FINE"},
      {Reach::kUnknownEnd, "UNKNOWN_END"},
      {Reach::kOnDrainedLink, "ON_DRAINED_LINK"},
      {Reach::kOnDeadLink, "ON_DEAD_LINK"},
      {Reach::kWithoutPath, "WITHOUT_PATH"},
  });
  return kReachNames.NameOf(reach);
}

Reach ReachOfEnds(const State& state, const fabric::Topology& topology,
                  const fabric::PortKey& key) {
  Reach reach = Reach::kFine;
  for (const fabric::NodeId nic : {key.source, key.destination}) {
    const auto attachment = state.paths.FindAttachment(nic);
    if (!attachment) return Reach::kUnknownEnd;
    if (!attachment->uplink) continue;  // its uplinks are hops of paths
    switch (topology.link(attachment->uplink->link).state) {
      case fabric::LinkState::kUp:
        break;
      case fabric::LinkState::kDrained:
        reach = std::max(reach, Reach::kOnDrainedLink);
        break;
      case fabric::LinkState::kDown:
        reach = Reach::kOnDeadLink;
        break;
    }
  }
  return reach;
}

Reach ReachUnsteered(const State& state, const fabric::Topology& topology, const Flow& flow) {
  const bool has_path = std::ranges::any_of(state.PathsOf(flow), [&](const fabric::Path& path) {
    return fabric::IsAlive(topology, path);
  });
  return has_path ? ReachOfEnds(state, topology, flow.key) : Reach::kWithoutPath;
}

Reach ReachOf(const State& state, const fabric::Topology& topology, const Flow& flow) {
  const bool is_unroutable = flow.status == FlowStatus::kUnroutable;
  if (is_unroutable) return flow.subflows.empty() ? Reach::kUnknownEnd : Reach::kWithoutPath;
  Reach reach = ReachOfEnds(state, topology, flow.key);
  if (flow.status == FlowStatus::kUnsteered) return ReachUnsteered(state, topology, flow);
  for (const Subflow& subflow : flow.subflows) {
    if (subflow.port == 0 || subflow.adopting) continue;  // its packets take ECMP
    const fabric::Path& path = state.PathsOf(flow)[subflow.port_path.Index()];
    reach = std::max(reach, ReachOver(topology, path));
  }
  return reach;
}

Reach ReachOf(const State& state, const fabric::Topology& topology, const EdgeReservation& edge) {
  return std::max(ReachOfEnds(state, topology, edge.key), ReachOver(topology, state.PathOf(edge)));
}

void ReachCounts::Add(Reach reach) {
  unknown_end += reach == Reach::kUnknownEnd ? 1 : 0;
  on_drained_link += reach == Reach::kOnDrainedLink ? 1 : 0;
  on_dead_link += reach == Reach::kOnDeadLink ? 1 : 0;
  without_path += reach == Reach::kWithoutPath ? 1 : 0;
}

ReachCounts CountReach(const State& state) {
  ReachCounts counts;
  for (const FlowSlot slot : state.flows.All())
    counts.Add(ReachOf(state, state.topology, state.flows.At(slot)));
  for (const auto& [name, edge] : state.edges.all())
    counts.Add(ReachOf(state, state.topology, edge));
  return counts;
}

}  // namespace espalier::controller
