#include "controller/placement/failures/local_reroutes.h"

#include <algorithm>
#include <set>
#include <utility>

namespace espalier::controller {

using wire::PathReason;

namespace {

// How long after a local reroute room is made. If no link is down, a failed one may be unknown yet:
// this wait covers the link failure probes (LinkFailureProbesOptions::patience).
constexpr Duration kUntilRoomIsMade = std::chrono::milliseconds(300);
constexpr Duration kUntilProbesEnd = std::chrono::seconds(4);
constexpr std::size_t kMaxLeftPorts = 8;
// How many times room is made for a reroute: the flows that it meets may be idle at first.
constexpr int kMostTimes = 4;
// After so long for each path that a flow has left, plans may move it again. The topology may never
// change, and hosts can be wrong about a path.
constexpr Duration kUntilPlanned = std::chrono::minutes(1);

}  // namespace

// Problem: the port of a local reroute is random, so its path is unknown and may be loaded. The
// path that the flow left looks idle, but may be dead.
// Idea: the subflow is adopted, as after a restart: a probe finds its path. Later, MakeRoom
// relieves the links above their even share. It pins all rerouted flows in a first pass, so that
// others move away from them. A second pass handles flows that were rerouted onto each other: it
// pins one of them at a time and lets the other ones move.
// Flows on the planned paths of their jobs' phases are pinned, but the plan did not predict the
// reroute. So they may move, too, and the plan is recomputed from where they are.
// Invariant: ports that a flow left stay taken under its key until the flow ends or has left
// kMaxLeftPorts later ones.
// Cost: O(rerouted flows) per call, and O(flows) if room has to be made.

// Several subflows may be on one path, so the port tells more than the path.
std::optional<std::uint32_t> LocalReroutes::FindLeft(const Flow& flow,
                                                     const wire::FlowHealth& report) {
  const auto is_left = [&](const Subflow& subflow) {
    if (report.left_port != 0) return subflow.port == report.left_port;
    return !subflow.adopting && subflow.port != 0 &&
           static_cast<std::uint32_t>(subflow.port_path.value()) == report.path_id;
  };
  const auto left = std::ranges::find_if(flow.subflows, is_left);
  if (left != flow.subflows.end()) {
    return static_cast<std::uint32_t>(left - flow.subflows.begin());
  }
  // A single path may have changed since. Of several ones it is not known which one was left.
  const bool is_single = flow.subflows.size() == 1 && !flow.subflows.front().adopting;
  return is_single ? std::optional<std::uint32_t>(0) : std::nullopt;
}

void LocalReroutes::Handle(FlowSlot slot, const wire::FlowHealth& report, TimePoint now) {
  const Flow& flow = state_.flows.At(slot);
  const std::uint16_t port = report.source_port;
  const auto index = FindLeft(flow, report);
  const bool has_paths = flow.status == FlowStatus::kRouted ||
                         flow.status == FlowStatus::kLearning ||
                         flow.status == FlowStatus::kAdopting;
  // The host has gone to a standby path.
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    const bool is_taken = port != 0 && flow.subflows[i].standby_port == port;
    if (is_taken) decisions_.ports().SetStandby(slot, i, kNoPath);
  }
  if (!has_paths || !index) return;
  Left left = WhatIsLeft(flow, flow.subflows[*index], !report.answered);
  if (!decisions_.RerouteLocally(slot, *index, port)) return;
  ++count_;
  Rerouted& rerouted = rerouted_[slot];
  rerouted.since = now;
  rerouted.times = 0;
  if (left.port != 0) rerouted.left.push_back(std::move(left));
  if (rerouted.left.size() > kMaxLeftPorts) {
    decisions_.ports().Release(slot, rerouted.left.front().port);
    rerouted.left.pop_front();
  }
  if (!admission_.Adopt(slot)) learner_.Verify(flow.key, port);
}

LocalReroutes::Left LocalReroutes::WhatIsLeft(const Flow& flow, const Subflow& subflow,
                                              bool is_dead) const {
  Left left{.port = subflow.port, .links = {}};
  if (subflow.port == 0 || subflow.adopting || !is_dead) return left;
  const auto paths = state_.paths.Between(flow.source_leaf, flow.destination_leaf);
  const auto path = static_cast<std::size_t>(subflow.port_path.value());
  if (path >= paths.size()) return left;
  for (const fabric::DirectedLink hop : paths[path].hops) {
    left.links.push_back(static_cast<std::uint32_t>(hop.Index()));
  }
  return left;
}

void LocalReroutes::Forget(FlowSlot slot) {
  const auto found = rerouted_.find(slot);
  if (found == rerouted_.end()) return;
  for (const Left& left : found->second.left) {
    decisions_.ports().Release(slot, left.port);
  }
  rerouted_.erase(found);
}

bool LocalReroutes::IsInForce(FlowSlot slot) const {
  return state_.flows.At(slot).rerouted_in == state_.topology.version();
}

bool LocalReroutes::AreInForce() const {
  return std::ranges::any_of(rerouted_, [&](const auto& entry) { return IsInForce(entry.first); });
}

std::set<std::uint32_t> LocalReroutes::LeftLinks() const {
  std::set<std::uint32_t> links;
  for (const auto& [slot, rerouted] : rerouted_) {
    if (!IsInForce(slot)) continue;
    for (const Left& left : rerouted.left) links.insert(left.links.begin(), left.links.end());
  }
  return links;
}

bool LocalReroutes::IsTight(const Flow& flow) const {
  return std::ranges::any_of(flow.subflows, [&](const Subflow& subflow) {
    return state_.flow_paths.PathOf(subflow) && !IsWithinLimits(state_.flow_paths, subflow);
  });
}

std::vector<FlowSlot> LocalReroutes::TakeTight(TimePoint now) {
  const bool is_any_down = std::ranges::any_of(
      state_.topology.links(),
      [](const fabric::Link& link) { return link.state == fabric::LinkState::kDown; });
  const Duration pause = is_any_down ? kUntilRoomIsMade : kUntilProbesEnd;
  std::vector<FlowSlot> tight;
  for (auto& [slot, rerouted] : rerouted_) {
    const Flow& flow = state_.flows.At(slot);
    const auto left = static_cast<std::int64_t>(rerouted.left.size());
    if (now - rerouted.since >= left * kUntilPlanned) decisions_.EndLocalReroute(slot);
    const bool is_due = now - rerouted.since >= pause && rerouted.times < kMostTimes;
    if (!is_due || flow.status == FlowStatus::kAdopting || !IsTight(flow)) continue;
    ++rerouted.times;
    tight.push_back(slot);
  }
  return tight;
}

void LocalReroutes::LeavePlan() {
  for (const FlowSlot slot : state_.flows.All()) decisions_.SetOnPlan(slot, false);
}

std::size_t LocalReroutes::MakeRoom(TimePoint now, std::size_t move_limit) {
  if (rerouted_.empty()) return 0;
  const std::vector<FlowSlot> tight = TakeTight(now);
  if (tight.empty()) return 0;
  const auto hold = [&](FlowSlot slot, bool holds) { decisions_.Hold(slot, holds); };
  LeavePlan();
  for (const auto& [slot, rerouted] : rerouted_) hold(slot, true);
  std::set<FlowSlot> moved =
      placer_.Relieve(move_limit * tight.size()).value_or(std::set<FlowSlot>{});
  for (const auto& [slot, rerouted] : rerouted_) hold(slot, false);
  // Flows that were rerouted onto each other.
  for (const FlowSlot slot : tight) {
    if (!IsTight(state_.flows.At(slot))) continue;
    hold(slot, true);
    auto relieved = placer_.Relieve(move_limit);
    if (relieved) moved.merge(*relieved);
    hold(slot, false);
  }
  for (const FlowSlot slot : moved) ports_.ChoosePorts(slot, PathReason::kAssigned);
  return moved.size();
}

}  // namespace espalier::controller
