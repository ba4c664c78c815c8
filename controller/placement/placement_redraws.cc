// Flows whose agents left a path by themselves, and what becomes of those that they meet.
#include <algorithm>

#include "controller/placement/placement.h"

namespace espalier::controller {

using wire::PathReason;

namespace {

// Where no link is known to be dead, one may be that is not known yet: hosts are asked for as long
// as LinkFailureProbesOptions::patience.
constexpr Duration kUntilRoomIsMade = std::chrono::milliseconds(300);
constexpr Duration kUntilDoubtsEnd = std::chrono::seconds(4);
constexpr std::size_t kMostLeftPorts = 8;

}  // namespace

void Placement::HandleRedraw(FlowSlot slot, std::uint32_t left_path, std::uint16_t port,
                             TimePoint now) {
  Flow& flow = state_.flows.At(slot);
  const auto is_left = [&](const FlowWay& way) {
    return !way.adopting && way.port != 0 &&
           static_cast<std::uint32_t>(way.port_path.value()) == left_path;
  };
  auto left = std::ranges::find_if(flow.ways, is_left);
  if (left == flow.ways.end()) left = std::ranges::find(flow.ways, false, &FlowWay::adopting);
  const bool has_paths = flow.status == FlowStatus::kRouted ||
                         flow.status == FlowStatus::kLearning ||
                         flow.status == FlowStatus::kAdopting;
  if (!has_paths || left == flow.ways.end() || !state_.ports.Take(flow.key, port)) return;
  FlowWay& way = *left;
  RemoveWay(way);
  Redrawn& redrawn = redrawn_[slot];
  redrawn.since = now;
  if (way.port != 0) redrawn.left_ports.push_back(way.port);
  if (redrawn.left_ports.size() > kMostLeftPorts) {
    state_.ports.Release(flow.key, redrawn.left_ports.front());
    redrawn.left_ports.pop_front();
  }
  way.port = port;
  way.adopting = true;
  SetStatus(slot, FlowStatus::kAdopting);
  if (!Adopt(slot)) learner_.Verify(flow.key, port);
}

bool Placement::IsTight(const Flow& flow) const {
  return std::ranges::any_of(flow.ways, [&](const FlowWay& way) {
    return state_.PathOf(way) && !state_.live.IsWithinLimits(*way.way);
  });
}

void Placement::Hold(const Flow& flow, bool holds) {
  for (const FlowWay& way : flow.ways) {
    if (way.way) state_.live.Pin(*way.way, holds || !flow.movable);
  }
}

std::size_t Placement::MakeRoomForRedrawn(TimePoint now, std::size_t most_moves) {
  std::vector<FlowSlot> tight;
  if (redrawn_.empty()) return 0;
  const bool is_any_down = std::ranges::any_of(
      state_.topology.links(),
      [](const fabric::Link& link) { return link.state == fabric::LinkState::kDown; });
  const Duration pause = is_any_down ? kUntilRoomIsMade : kUntilDoubtsEnd;
  for (auto& [slot, redrawn] : redrawn_) {
    const Flow& flow = state_.flows.At(slot);
    const bool is_due = redrawn.since && now - *redrawn.since >= pause;
    if (!is_due || flow.status == FlowStatus::kAdopting) continue;
    redrawn.since.reset();
    if (IsTight(flow)) tight.push_back(slot);
  }
  if (tight.empty()) return 0;
  for (const auto& [slot, redrawn] : redrawn_) Hold(state_.flows.At(slot), true);
  std::set<FlowSlot> moved = Repair(most_moves * tight.size());
  for (const auto& [slot, redrawn] : redrawn_) Hold(state_.flows.At(slot), false);
  // Those that met one another.
  for (const FlowSlot slot : tight) {
    const Flow& flow = state_.flows.At(slot);
    if (!IsTight(flow)) continue;
    Hold(flow, true);
    moved.merge(Repair(most_moves));
    Hold(flow, false);
  }
  for (const FlowSlot slot : moved) ChoosePorts(slot, PathReason::kRecomputed);
  return moved.size();
}

}  // namespace espalier::controller
