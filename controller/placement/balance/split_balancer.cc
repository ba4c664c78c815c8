#include "controller/placement/balance/split_balancer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "controller/routing/exact/share_balancer.h"

namespace espalier::controller {

namespace {

// Whether two links between switches of one tier, that is, of the same two roles, have different
// rates.
bool HasMixedRates(const fabric::Topology& topology) {
  using Tier = std::pair<fabric::SwitchRole, fabric::SwitchRole>;
  std::map<Tier, std::int64_t> rates;
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const fabric::LinkId id(static_cast<std::int32_t>(i));
    if (!topology.IsFabricLink(id)) continue;
    const fabric::Link& link = topology.link(id);
    const Tier tier = std::minmax(topology.node(link.a).role, topology.node(link.b).role);
    if (rates.try_emplace(tier, link.rate.value).first->second != link.rate.value) return true;
  }
  return false;
}

}  // namespace

SplitBalancer::SplitBalancer(const State& state, FlowDecisions& decisions, EventHistory& history,
                             const ControllerOptions& options, const LocalReroutes& reroutes,
                             Metrics& metrics)
    : state_(state),
      decisions_(decisions),
      history_(history),
      options_(options),
      reroutes_(reroutes),
      has_mixed_rates_(HasMixedRates(state.topology)),
      seen_version_(state.topology.version()),
      divisions_(metrics.MakeCounter(
          "espalier_controller_divisions_total",
          "Times that flows with several paths were divided again, as links failed or returned, "
          "hosts moved flows by themselves, or background traffic changed")),
      flows_(metrics.MakeCounter("espalier_controller_flows_divided_total",
                                 "Flows that got other shares on their paths in these divisions")) {
  is_damaged_ = !IsWhole();
}

bool SplitBalancer::IsEnabled() const {
  return options_.balance_splits && options_.shares != Shares::kEqual;
}

bool SplitBalancer::IsWhole() const {
  if (has_mixed_rates_) return false;
  const auto& links = state_.topology.links();
  for (std::size_t i = 0; i < links.size(); ++i) {
    const fabric::LinkId link(static_cast<std::int32_t>(i));
    const bool is_up = links[i].state == fabric::LinkState::kUp;
    if (!is_up && state_.topology.IsFabricLink(link)) return false;
  }
  return true;
}

bool SplitBalancer::HasBackground() const {
  return std::ranges::any_of(state_.flow_paths.assigner().base_loads(),
                             [](std::int64_t load) { return load > 0; });
}

bool SplitBalancer::MayBeUneven() const {
  return IsEnabled() && (is_damaged_ || reroutes_.AreInForce() || HasBackground());
}

bool SplitBalancer::Pace::Note(TimePoint now) {
  const bool is_first = !last || now - *last >= kCalm;
  if (is_first) {
    hold = kSettle;
  } else if (now - *last >= kSettle) {
    hold = std::min<Duration>(2 * hold, kLongestHold);
  }
  last = now;
  return is_first;
}

void SplitBalancer::FollowFabric(TimePoint now) {
  if (state_.topology.version() == seen_version_) return;
  seen_version_ = state_.topology.version();
  is_damaged_ = !IsWhole();
  due_ = fabric_.Note(now) ? now : now + fabric_.hold;
}

void SplitBalancer::FollowReroutes(TimePoint now) {
  if (reroutes_.count() == seen_reroutes_) return;
  seen_reroutes_ = reroutes_.count();
  const TimePoint due = now + (moves_.Note(now) ? kGatheringMoves : moves_.hold);
  due_ = std::min(due_.value_or(due), due);
}

SplitBalancer::Outcome SplitBalancer::Tick(TimePoint now) {
  FollowFabric(now);
  FollowReroutes(now);
  const bool wants_equal = !MayBeUneven();
  if (!due_) {
    const bool has_news =
        wants_equal ? has_divided_ : state_.flow_paths.path_changes() != seen_paths_;
    if (!has_news) return Outcome::kNothing;
    due_ = now + kGathering;
    if (looked_) due_ = std::max(*due_, *looked_ + std::max(kInterval, fabric_.hold));
  }
  if (now < *due_) return Outcome::kNothing;
  due_.reset();
  looked_ = now;
  const Outcome outcome = wants_equal ? MakeEqual(now) : Divide(now);
  seen_paths_ = state_.flow_paths.path_changes();
  if (outcome == Outcome::kNothing) return outcome;
  divisions_.Add();
  return outcome;
}

std::vector<std::uint8_t> SplitBalancer::FindRigid(const Elephants& elephants,
                                                   const Assignment& present) const {
  const std::set<std::uint32_t> left_links = reroutes_.LeftLinks();
  std::vector<std::uint8_t> is_rigid = elephants.is_rigid;
  std::vector<std::uint32_t> hops;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    // The phases of jobs were planned with equal parts, so flows on the plan keep them.
    if (!decisions_.MayMove(elephants.slots[i], Mover::kSplit)) is_rigid[i] = 1;
    if (is_rigid[i] != 0 || left_links.empty()) continue;
    hops.clear();
    for (const std::int32_t path : present.PathsOf(i)) {
      if (path == kNoPath) continue;
      const Commodity& commodity = elephants.commodities[i];
      state_.view.AppendHops(commodity.source, commodity.destination, path, hops);
    }
    const auto is_left = [&](std::uint32_t hop) { return left_links.contains(hop); };
    is_rigid[i] = std::ranges::any_of(hops, is_left) ? 1 : 0;
  }
  return is_rigid;
}

SplitBalancer::Outcome SplitBalancer::Divide(TimePoint now) {
  std::vector<FlowSlot> slots = state_.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) { return !state_.CountsAsLoad(state_.flows.At(slot)); });
  const Elephants elephants = DescribeElephants(state_, slots);
  if (!elephants.MayBeUneven()) return Outcome::kNothing;
  const Assignment present = CurrentPaths(state_, elephants);
  const Assignment divided =
      BalanceShares(state_.view, elephants.commodities, FindRigid(elephants, present),
                    elephants.base_loads, present, kMostSteps);
  if (divided.max_load.Value() > present.max_load.Value() * (1 - kWorth)) return Outcome::kNothing;
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    if (HasSameShares(elephants.commodities[i], i, present, divided)) continue;
    decisions_.Divide(elephants.slots[i], divided.SharesOf(i), true);
    ++changed;
  }
  has_divided_ = true;
  flows_.Add(changed);
  history_.RecordOf("controller", now, "flows_divided",
                    fmt::format("flows={} max_load_before={:.3f} max_load={:.3f}", changed,
                                present.max_load.Value(), divided.max_load.Value()));
  return Outcome::kDivided;
}

SplitBalancer::Outcome SplitBalancer::MakeEqual(TimePoint now) {
  if (!has_divided_) return Outcome::kNothing;
  has_divided_ = false;
  std::int64_t changed = 0;
  for (const FlowSlot slot : state_.flows.All()) {
    if (!state_.flows.At(slot).is_balanced) continue;
    decisions_.Divide(slot, {}, false);
    ++changed;
  }
  if (changed == 0) return Outcome::kNothing;
  flows_.Add(changed);
  history_.RecordOf("controller", now, "flows_equal_again", fmt::format("flows={}", changed));
  return Outcome::kEqual;
}

}  // namespace espalier::controller
