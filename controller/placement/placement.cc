#include "controller/placement/placement.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {

using fabric::PathIndex;
using wire::PathReason;

namespace {

constexpr std::size_t kMostEndsRepaired = 256;  // before one assignment

}  // namespace

Placement::Placement(State& state, PathLearner& learner, const ControllerOptions& options)
    : state_(state),
      learner_(learner),
      options_(options),
      reassigner_(state, state.view, options) {}

void Placement::Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports) {
  Flow& flow = state_.flows.At(slot);
  const auto source = state_.topology.FindNic(flow.source_address);
  const auto destination = state_.topology.FindNic(flow.destination_address);
  const bool known =
      source && destination &&
      fabric::HostOf(state_.topology.node(*source)) == state_.agents.At(flow.agent).name;
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
  const std::size_t most = std::min<std::size_t>(kMaxWays, state_.PathsOf(flow).size());
  flow.ways.resize(std::clamp<std::size_t>(flow.max_paths, 1, std::max<std::size_t>(most, 1)));
  state_.by_key[flow.key].push_back(slot);
  bool any = false;
  for (std::size_t i = 0; i < std::min(flow.ways.size(), steered_ports.size()); ++i) {
    const std::uint16_t port = steered_ports[i];
    if (port == 0 || !state_.ports.Take(flow.key, port)) continue;
    flow.ways[i].port = port;
    flow.ways[i].adopting = true;
    any = true;
  }
  SetStatus(slot, any ? FlowStatus::kAdopting : FlowStatus::kNew);
  if (!any || Adopt(slot)) return;
  for (const FlowWay& way : flow.ways) {
    if (way.adopting) learner_.Verify(flow.key, way.port);
  }
}

void Placement::Release(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  ++ends_;
  for (FlowWay& way : flow.ways) {
    RemoveWay(way);
    if (way.port != 0) state_.ports.Release(flow.key, way.port);
  }
  flow.ways.clear();
  if (const auto redrawn = redrawn_.find(slot); redrawn != redrawn_.end()) {
    for (const std::uint16_t port : redrawn->second.left_ports) {
      state_.ports.Release(flow.key, port);
    }
    redrawn_.erase(redrawn);
  }
  const auto found = state_.by_key.find(flow.key);
  if (found == state_.by_key.end()) return;
  std::erase(found->second, slot);
  if (found->second.empty()) state_.by_key.erase(found);
}

void Placement::SetStatus(FlowSlot slot, FlowStatus status) {
  Flow& flow = state_.flows.At(slot);
  if (flow.status == status && status != FlowStatus::kNew) return;
  if (status == FlowStatus::kNew) state_.unplaced.push_back(slot);
  flow.status = status;
}

void Placement::AddWay(FlowSlot slot, std::uint32_t index) {
  Flow& flow = state_.flows.At(slot);
  const auto share = kLoadUnit / static_cast<std::int64_t>(flow.ways.size());
  const LivePaths::Way way = state_.live.Add(*state_.view.LeafOf(flow.source_leaf),
                                             *state_.view.LeafOf(flow.destination_leaf), share);
  if (state_.owners.size() <= way) state_.owners.resize(std::size_t{way} + 1);
  state_.owners[way] = {slot, index};
  flow.ways[index].way = way;
}

void Placement::PlaceWay(const FlowWay& way, std::int32_t path) {
  state_.NotePath(*way.way, state_.live.PathOf(*way.way), path);
  state_.live.Place(*way.way, path);
}

void Placement::RemoveWay(FlowWay& way) {
  if (!way.way) return;
  state_.NotePath(*way.way, state_.live.PathOf(*way.way), kNoPath);
  state_.live.Remove(*way.way);
  way.way.reset();
}

void Placement::SetLive(const Flow& flow) {
  for (const FlowWay& way : flow.ways) {
    if (!way.way) continue;
    state_.live.Pin(*way.way, !flow.movable);
    state_.live.SetLive(*way.way);
  }
}

std::set<FlowSlot> Placement::FindPaths(std::span<const FlowSlot> slots, std::size_t most_moves) {
  for (const FlowSlot slot : slots) {
    std::vector<FlowWay>& ways = state_.flows.At(slot).ways;
    for (std::uint32_t i = 0; i < ways.size(); ++i) {
      if (!ways[i].way && !ways[i].adopting) AddWay(slot, i);
    }
  }
  std::vector<LivePaths::Way> to_place;
  for (const FlowSlot slot : slots) {
    for (const FlowWay& way : state_.flows.At(slot).ways) {
      if (!state_.PathOf(way) && !way.adopting) to_place.push_back(*way.way);
    }
  }
  std::set<FlowSlot> others;
  const auto moves = state_.live.StartAll(to_place, ChainOptions(options_, most_moves));
  for (const LivePaths::Move& move : moves) {
    if (move.from != kNoPath) others.insert(state_.owners[move.way].slot);
    state_.NotePath(move.way, move.from, move.to);
  }
  for (const LivePaths::Way way : to_place) {
    const State::WayOwner& owner = state_.owners[way];
    FlowWay& placed = state_.flows.At(owner.slot).ways[owner.index];
    if (!state_.PathOf(placed)) RemoveWay(placed);
  }
  for (const FlowSlot slot : slots) others.erase(slot);
  return others;
}

std::set<FlowSlot> Placement::Repair(std::size_t most_moves) {
  std::set<FlowSlot> moved;
  for (const LivePaths::Move& move : state_.live.Rebalance(ChainOptions(options_, most_moves))) {
    moved.insert(state_.owners[move.way].slot);
    state_.NotePath(move.way, move.from, move.to);
  }
  return moved;
}

void Placement::SetPort(Flow& flow, FlowWay& way, std::uint16_t port) {
  if (way.port != 0) state_.ports.Release(flow.key, way.port);
  if (port != 0) state_.ports.Take(flow.key, port);
  way.port = port;
  state_.MarkDirty(flow);
}

bool Placement::LeadsToItsPath(const Flow& flow, const FlowWay& way) const {
  if (way.port == 0) return false;
  const auto entry = state_.path_map.Find(flow.key, way.port);
  return entry && entry->path == state_.PathOf(way);
}

std::optional<fabric::PortEntry> Placement::FindPort(const Flow& flow, const FlowWay& way,
                                                     std::uint16_t preferred) {
  const PathIndex path = *state_.PathOf(way);
  const PortNeed need = way.urgent ? PortNeed::kUrgent : PortNeed::kSure;
  const auto choose = [&] {
    return ChoosePort(state_.path_map, flow.key, path, state_.ports, need, preferred);
  };
  auto entry = choose();
  if (!entry && learner_.Want(flow.key, path)) entry = choose();
  return entry;
}

void Placement::ChoosePorts(FlowSlot slot, PathReason reason) {
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
      SetPort(flow, way, entry->port);
      way.port_path = entry->path;
      way.urgent = false;
      if (entry->trust != fabric::PortTrust::kVerified) learner_.Verify(flow.key, entry->port);
      continue;
    }
    complete = false;
    // Rather ECMP than a path that is dead.
    if (way.urgent && way.port != 0) SetPort(flow, way, 0);
  }
  SetStatus(slot, complete ? FlowStatus::kRouted : FlowStatus::kLearning);
}

void Placement::Settle(FlowSlot slot, PathReason reason) {
  Flow& flow = state_.flows.At(slot);
  if (state_.PathOf(flow.ways.front())) return ChoosePorts(slot, reason);
  for (FlowWay& way : flow.ways) {
    if (way.port != 0) SetPort(flow, way, 0);
  }
  flow.reason = reason;
  SetStatus(slot, FlowStatus::kUnroutable);
}

std::vector<FlowSlot> Placement::InOrder(std::vector<FlowSlot> slots) const {
  // By names, whose order does not depend on who came first; numbers tell which are equal.
  const auto comes_before = [&](FlowSlot a, FlowSlot b) {
    const Flow& x = state_.flows.At(a);
    const Flow& y = state_.flows.At(b);
    if (x.job != y.job) return state_.flows.JobName(x.job) < state_.flows.JobName(y.job);
    if (x.agent == y.agent) return x.local < y.local;
    return state_.agents.At(x.agent).name < state_.agents.At(y.agent).name;
  };
  std::sort(slots.begin(), slots.end(), comes_before);
  return slots;
}

bool Placement::TakePlanned(FlowSlot slot, const Foresight::Planned& planned,
                            std::set<FlowSlot>& others) {
  for (const LivePaths::Move& move : planned.moves) {
    others.insert(state_.owners[move.way].slot);
    state_.NotePath(move.way, move.from, move.to);
    state_.live.Place(move.way, move.to);
  }
  Flow& flow = state_.flows.At(slot);
  bool is_within = true;
  for (std::uint32_t i = 0; i < flow.ways.size(); ++i) {
    AddWay(slot, i);
    PlaceWay(flow.ways[i], planned.paths[i]);
    is_within = is_within && (planned.holds || state_.live.IsWithinLimits(*flow.ways[i].way));
  }
  if (is_within) {
    flow.origin = PlanOrigin::kPredicted;
    return true;
  }
  for (FlowWay& way : flow.ways) RemoveWay(way);
  return false;
}

Placement::Placed Placement::PlaceNew(Foresight& foresight, std::size_t most_moves) {
  std::vector<FlowSlot> slots;
  for (const FlowSlot slot : std::exchange(state_.unplaced, {})) {
    if (state_.flows.IsOpen(slot) && state_.flows.At(slot).status == FlowStatus::kNew) {
      slots.push_back(slot);
    }
  }
  slots = InOrder(std::move(slots));
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());

  Placed placed{.flows = slots.size()};
  std::set<FlowSlot> others;
  std::vector<FlowSlot> unplanned;
  for (const FlowSlot slot : slots) {
    const Flow& flow = state_.flows.At(slot);
    const bool is_bare =
        std::ranges::none_of(flow.ways, [](const FlowWay& way) { return way.way || way.adopting; });
    const auto planned = is_bare ? foresight.Find(slot) : std::nullopt;
    if (planned && TakePlanned(slot, *planned, others)) {
      foresight.Confirm(*planned);
      ++placed.planned;
    } else {
      unplanned.push_back(slot);
    }
  }
  for (const FlowSlot slot : unplanned) {
    foresight.CountMiss(slot);
    state_.flows.At(slot).origin = PlanOrigin::kReactive;
  }
  others.merge(FindPaths(unplanned, most_moves));
  const std::size_t changes = slots.size() + std::min(std::exchange(ends_, 0), kMostEndsRepaired);
  if (others.size() < most_moves * changes) {
    others.merge(Repair(most_moves * changes - others.size()));
  }
  for (const FlowSlot slot : slots) {
    others.erase(slot);
    Settle(slot, PathReason::kAssigned);
    SetLive(state_.flows.At(slot));
  }
  for (const FlowSlot slot : others) ChoosePorts(slot, PathReason::kRecomputed);
  placed.moved = others.size();
  return placed;
}

bool Placement::Adopt(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  bool lacks_paths = false;
  bool is_complete = true;
  for (std::uint32_t i = 0; i < flow.ways.size(); ++i) {
    FlowWay& way = flow.ways[i];
    if (way.adopting) {
      const auto entry = state_.path_map.Find(flow.key, way.port);
      if (!entry || entry->trust == fabric::PortTrust::kReverify) {
        is_complete = false;
        continue;
      }
      const fabric::Path& path = state_.PathsOf(flow)[entry->path.Index()];
      way.adopting = false;
      way.port_path = entry->path;
      way.urgent = !fabric::IsAlive(state_.topology, path);
      if (way.urgent) SetPort(flow, way, 0);
      if (fabric::IsUsable(state_.topology, path)) {
        if (!way.way) AddWay(slot, i);
        PlaceWay(way, entry->path.value());
      }
    }
    lacks_paths = lacks_paths || !state_.PathOf(way);
  }
  SetLive(flow);
  if (!is_complete) return false;
  state_.MarkDirty(flow);
  SetStatus(slot, lacks_paths ? FlowStatus::kNew : FlowStatus::kRouted);
  return true;
}

bool Placement::LeavePortsGivenUp(Flow& flow) {
  bool has_one = false;
  for (FlowWay& way : flow.ways) {
    if (way.port == 0 || !learner_.HasGivenUp(flow.key, way.port)) continue;
    way.urgent = true;  // as good as dead
    has_one = true;
  }
  return has_one;
}

void Placement::Revisit(const fabric::PortKey& key) {
  const auto found = state_.by_key.find(key);
  if (found == state_.by_key.end()) return;
  for (const FlowSlot slot : found->second) {
    Flow& flow = state_.flows.At(slot);
    if (flow.status == FlowStatus::kAdopting) {
      Adopt(slot);
    } else if (flow.status == FlowStatus::kLearning) {
      LeavePortsGivenUp(flow);
      ChoosePorts(slot, flow.reason);
    } else if (flow.status == FlowStatus::kRouted) {
      bool leads_elsewhere = LeavePortsGivenUp(flow);
      for (FlowWay& way : flow.ways) {
        const auto entry = state_.path_map.Find(key, way.port);
        if (!entry || entry->path == way.port_path) continue;
        way.port_path = entry->path;
        leads_elsewhere = true;
      }
      if (leads_elsewhere) ChoosePorts(slot, PathReason::kRemapped);
    }
  }
}

void Placement::EndAdoption(AgentId agent) {
  for (const FlowSlot slot : state_.flows.OfAgent(agent)) {
    Flow& flow = state_.flows.At(slot);
    if (flow.status != FlowStatus::kAdopting) continue;
    for (FlowWay& way : flow.ways) {
      if (std::exchange(way.adopting, false)) SetPort(flow, way, 0);
    }
    SetStatus(slot, FlowStatus::kNew);
  }
}

void Placement::RetryUnroutable() {
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (flow.status == FlowStatus::kUnroutable && !flow.ways.empty()) {
      SetStatus(slot, FlowStatus::kNew);
    }
  }
}

}  // namespace espalier::controller
