#include "controller/agents/weight_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace espalier::controller {
namespace {

// The time that paths must have been measured for, added up over the paths of a flow.
constexpr Duration kEnough = std::chrono::minutes(1);
constexpr Duration kLongestMeasurement = std::chrono::seconds(5);
// The sum over all paths of how far the part of the bytes is from the share. Two equal parts
// instead of 2/3 and 1/3 differ by 1/3.
constexpr double kClearly = 0.2;

bool IsDivided(const Flow& flow) {
  return std::ranges::any_of(flow.subflows, [&](const Subflow& subflow) {
    return ShareOf(flow, subflow) != ShareOf(flow, flow.subflows.front());
  });
}

}  // namespace

WeightWatch::WeightWatch(const State& state, FlowDecisions& decisions, EventHistory& history,
                         EventLoop& loop, Metrics& metrics)
    : state_(state),
      decisions_(decisions),
      history_(history),
      loop_(loop),
      found_(metrics.MakeCounter("espalier_controller_flows_ignoring_weights_total",
                                 "Flows whose programs announced that they send over their paths "
                                 "in proportion to weights, and did not")) {}

WeightWatch::Watched& WeightWatch::Watch(FlowSlot slot, const Flow& flow) {
  Watched& watched = watched_[slot];
  const bool is_same =
      watched.agent == flow.agent && watched.local == flow.local &&
      std::ranges::equal(watched.parts, flow.subflows,
                         [&](const Part& part, const Subflow& subflow) {
                           return part.port == subflow.port && part.share == ShareOf(flow, subflow);
                         });
  if (is_same) return watched;
  watched = {flow.agent, flow.local, {}, {}};
  for (const Subflow& subflow : flow.subflows) {
    watched.parts.push_back({.port = subflow.port, .share = ShareOf(flow, subflow)});
  }
  return watched;
}

bool WeightWatch::IsIgnored(const Watched& watched) const {
  double bytes = 0;
  for (const Part& part : watched.parts) bytes += part.bytes;
  if (bytes <= 0) return false;
  double from_shares = 0;
  double from_equal = 0;
  for (const Part& part : watched.parts) {
    const double share = static_cast<double>(part.share) / static_cast<double>(kLoadUnit);
    from_shares += std::abs(part.bytes / bytes - share);
    from_equal += std::abs(part.bytes / bytes - 1.0 / static_cast<double>(watched.parts.size()));
  }
  return from_shares > kClearly && from_equal < from_shares;
}

bool WeightWatch::HandleMeasurement(FlowSlot slot, const wire::FlowHealth& health) {
  const Flow& flow = state_.flows.At(slot);
  if (!flow.KeepsWeights() || !IsDivided(flow)) {
    watched_.erase(slot);
    return false;
  }
  Watched& watched = Watch(slot, flow);
  const auto part = std::ranges::find(watched.parts, health.source_port, &Part::port);
  if (part == watched.parts.end() || health.source_port == 0) return false;
  const TimePoint now = loop_.Now();
  const Duration span = now - std::exchange(part->last, now);
  if (span <= Duration::zero() || span > kLongestMeasurement) return false;
  part->bytes += static_cast<double>(health.achieved_bps) / 8 * SecondsOf(span);
  watched.measured += span;
  if (watched.measured < kEnough) return false;
  const bool is_ignored = IsIgnored(watched);
  watched_.erase(slot);  // measured again, if it keeps them
  if (!is_ignored) return false;
  decisions_.IgnoreWeights(slot);
  found_.Add();
  history_.RecordOf(state_.agents.At(flow.agent).name, loop_.Now(), "weights_ignored",
                    fmt::format("flow={}", state_.FlowName(flow)));
  return true;
}

}  // namespace espalier::controller
