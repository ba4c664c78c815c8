#include "controller/placement/rate_planner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "controller/placement/load_summary.h"

namespace espalier::controller {
namespace {

constexpr int kRestOfWork = 9;  // times as long as the last rates took

bool IsWorthTelling(std::uint64_t before, std::uint64_t now) {
  const std::uint64_t change = now > before ? now - before : before - now;
  return change > before / 16;
}

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
  if (now_seen == seen_) return;
  const TimePoint begin = loop_.Now();
  if (begin < next_) {
    if (!later_) {
      later_ = loop_.After(next_ - begin, [this] {
        later_.reset();
        request_turn_();
      });
    }
    return;
  }
  seen_ = now_seen;
  if (SetLimits()) push();
  const TimePoint end = loop_.Now();
  next_ = end + kRestOfWork * (end - begin);
}

bool RatePlanner::SetLimits() {
  std::vector<FlowSlot> slots = state_.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) {
    const FlowActivity& activity = state_.flows.ActivityOf(slot);
    const bool is_idle = activity.ReportsEdges() && !activity.IsBusy();
    return is_idle || !state_.CountsAsLoad(state_.flows.At(slot));
  });
  const Elephants elephants = DescribeElephants(state_, slots);
  const Assignment present = CurrentPaths(state_, elephants);
  const auto rates = rates_.Predict(elephants.commodities, present, elephants.base_loads);
  const auto of_subflows = rates_.subflow_rates();
  const auto rate_of = [&](const Flow& flow, std::size_t i) {
    if (!flow.KeepsWeights()) return rates[i];
    return std::accumulate(of_subflows.begin() + present.first[i],
                           of_subflows.begin() + present.first[i + 1], 0.0);
  };
  bool has_changed = false;
  for (std::size_t i = 0; i < elephants.slots.size(); ++i) {
    Flow& flow = state_.flows.At(elephants.slots[i]);
    if (flow.status == FlowStatus::kUnsteered) continue;
    const bool gets_one = flow.keeps_rate || options_.limit_rates == RateLimits::kOn;
    const auto rate = gets_one ? static_cast<std::uint64_t>(rate_of(flow, i)) : 0;
    if (!IsWorthTelling(flow.max_rate_bps, rate)) continue;
    flow.max_rate_bps = rate;
    state_.pushes.MarkFlow(elephants.slots[i]);
    has_changed = true;
  }
  has_limits_ = has_limits_ || has_changed;
  return has_changed;
}

bool RatePlanner::LiftLimits() {
  bool has_changed = false;
  for (const FlowSlot slot : state_.flows.All()) {
    Flow& flow = state_.flows.At(slot);
    if (std::exchange(flow.max_rate_bps, 0) == 0) continue;
    state_.pushes.MarkFlow(slot);
    has_changed = true;
  }
  seen_ = {};
  has_limits_ = false;
  return has_changed;
}

}  // namespace espalier::controller
