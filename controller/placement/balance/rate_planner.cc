#include "controller/placement/balance/rate_planner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace espalier::controller {
namespace {

constexpr int kRestOfWork = 9;  // times as long as the last rates took

bool IsWorthTelling(std::uint64_t before, std::uint64_t now) {
  const std::uint64_t change = now > before ? now - before : before - now;
  return change > before / 16;
}

bool IsIdle(const FlowActivity& activity) { return activity.ReportsEdges() && !activity.IsBusy(); }

}  // namespace

bool HasRateLimits(const State& state, const ControllerOptions& options) {
  return options.limit_rates == RateLimits::kOn ||
         (options.limit_rates == RateLimits::kAutomatic && state.flows.rate_keepers() > 0);
}

void RatePlanner::Update(const std::function<void()>& push) {
  if (!HasRateLimits(state_, options_)) {
    if (has_limits_ && LiftLimits()) push();
    return;
  }
  const std::tuple now_seen{state_.flow_paths.changes(), state_.flows.busy_changes(),
                            options_.limit_rates};
  const TimePoint begin = loop_.Now();
  if (now_seen == seen_ && begin < round_) return;
  if (begin < next_) {
    if (!later_) {
      later_ = loop_.After(next_ - begin, [this] {
        later_.reset();
        request_turn_();
      });
    }
    return;
  }
  const bool has_changed = std::exchange(seen_, now_seen) != now_seen;
  if ((FollowDemands(begin) || has_changed) && SetLimits()) push();
  const TimePoint end = loop_.Now();
  next_ = end + kRestOfWork * (end - begin);
}

RatePlanner::Sender& RatePlanner::SenderOf(FlowSlot slot) {
  if (slot.Index() >= senders_.size()) senders_.resize(slot.Index() + 1);
  Sender& sender = senders_[slot.Index()];
  const Flow& flow = state_.flows.At(slot);
  if (sender.agent != flow.agent || sender.local != flow.local) {
    sender = {.agent = flow.agent, .local = flow.local};
  }
  return sender;
}

// Problem: what a flow will send is not known, and what its program says of it may be a lie.
// Idea: it will send about what it has just sent, or more. A flow whose demand is too low harms
// nobody, as limits follow from the demands of the others; one that is too high takes from others.
// So demands rise by a factor a round, and fall at once.
bool RatePlanner::FollowDemands(TimePoint now) {
  const bool is_round = now >= round_;
  if (is_round) round_ = now + kRound;
  bool has_changed = false;
  for (const FlowSlot slot : state_.flows.All()) {
    const FlowActivity& activity = state_.flows.ActivityOf(slot);
    Sender& sender = SenderOf(slot);
    const bool is_busy = !IsIdle(activity) && state_.CountsAsLoad(state_.flows.At(slot));
    if (is_busy && !std::exchange(sender.was_busy, true)) sender.sent = now;
    if (!is_busy) {
      sender.was_busy = false;
      continue;
    }
    const bool sends = activity.achieved_bps > 0 || activity.posted_bytes > sender.posted_bytes;
    sender.posted_bytes = activity.posted_bytes;
    if (sends) sender.sent = now;
    const auto achieved = static_cast<double>(activity.achieved_bps);
    if (is_round && achieved > 0) {
      const double start = kStart * static_cast<double>(state_.view.unit_bps());
      const double most = kGrowth * std::max(sender.demand_bps, start / kGrowth);
      sender.demand_bps = std::min(2 * achieved, most);
    }
    const double counted = now - sender.sent >= kSilence ? 0 : std::max(1.0, sender.demand_bps);
    has_changed |= std::abs(counted - sender.counted_bps) > sender.counted_bps / 16;
  }
  return has_changed;
}

std::vector<RatePredictor::Demand> RatePlanner::DemandsOf(const Elephants& elephants) {
  const TimePoint now = loop_.Now();
  const auto counts = [&](const Sender& sender) { return now - sender.sent < kSilence; };
  std::map<fabric::NodeId, std::size_t> new_of_nic;
  std::map<std::pair<AgentId, fabric::NodeId>, std::size_t> of_pair;
  for (const FlowSlot slot : elephants.slots) {
    const Sender& sender = SenderOf(slot);
    if (!counts(sender)) continue;
    const fabric::PortKey& key = state_.flows.At(slot).key;
    if (sender.demand_bps == 0) ++new_of_nic[key.source];
    ++of_pair[{sender.agent, key.destination}];
  }
  std::vector<RatePredictor::Demand> demands(elephants.slots.size());
  for (std::size_t i = 0; i < demands.size(); ++i) {
    Sender& sender = SenderOf(elephants.slots[i]);
    sender.counted_bps = counts(sender) ? std::max(1.0, sender.demand_bps) : 0;
    demands[i].bps = sender.counted_bps;
    if (!counts(sender)) continue;
    const fabric::PortKey& key = state_.flows.At(elephants.slots[i]).key;
    if (sender.demand_bps == 0) {
      const std::uint32_t link = elephants.commodities[i].source_link;
      const double nic = link == kNoLink ? static_cast<double>(state_.view.unit_bps())
                                         : state_.view.capacities_bps()[link];
      demands[i].bps = std::max(1.0, kStart * nic / static_cast<double>(new_of_nic[key.source]));
    }
    const auto flows = static_cast<double>(of_pair[{sender.agent, key.destination}]);
    const double part = std::min(1.0, static_cast<double>(kFlowsOfPair) / flows);
    demands[i].weight = part * part;
  }
  return demands;
}

bool RatePlanner::SetLimits() {
  std::vector<FlowSlot> slots = state_.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) {
    return IsIdle(state_.flows.ActivityOf(slot)) || !state_.CountsAsLoad(state_.flows.At(slot));
  });
  const Elephants elephants = DescribeElephants(state_, slots);
  const Assignment present = CurrentPaths(state_, elephants);
  std::vector<std::uint8_t> keeps_weights;
  for (const FlowSlot slot : elephants.slots) {
    keeps_weights.push_back(state_.flows.At(slot).KeepsWeights() ? 1 : 0);
  }
  const auto rates = rates_.PredictLimits(elephants.commodities, present, elephants.base_loads,
                                          DemandsOf(elephants), keeps_weights);
  bool has_changed = false;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    const Flow& flow = state_.flows.At(elephants.slots[i]);
    if (flow.status == FlowStatus::kUnsteered) continue;
    const bool gets_one = flow.keeps_rate || options_.limit_rates == RateLimits::kOn;
    const auto rate = gets_one ? static_cast<std::uint64_t>(rates[i]) : 0;
    if (!IsWorthTelling(flow.max_rate_bps, rate)) continue;
    decisions_.LimitRate(elephants.slots[i], rate);
    has_changed = true;
  }
  has_limits_ = has_limits_ || has_changed;
  return has_changed;
}

bool RatePlanner::LiftLimits() {
  bool has_changed = false;
  for (const FlowSlot slot : state_.flows.All()) {
    if (state_.flows.At(slot).max_rate_bps == 0) continue;
    decisions_.LimitRate(slot, 0);
    has_changed = true;
  }
  seen_ = {};
  senders_.clear();
  has_limits_ = false;
  return has_changed;
}

}  // namespace espalier::controller
