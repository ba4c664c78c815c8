#include "controller/api/flow_census.h"

#include <algorithm>

#include "controller/api/flow_view.h"

namespace espalier::controller {
namespace {

using fabric::DirectedLink;

void AddHostLinks(const State& state, const Flow& flow, std::uint64_t bps, LinkTraffic& traffic) {
  const auto add = [&](const IpAddress& address, bool sends) {
    const auto nic = state.topology.FindNic(address);
    const auto attachment = nic ? state.paths.FindAttachment(*nic) : std::nullopt;
    if (!attachment) return;
    DirectedLink link = attachment->uplink;
    if (!sends) link.forward = !link.forward;
    traffic.achieved_bps[link.Index()] += bps;
  };
  add(flow.source_address, true);
  add(flow.destination_address, false);
}

}  // namespace

std::int64_t JobFigures::MaxLinkFlows(const LinkTraffic& traffic) const {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < directions.size(); ++i) {
    if (directions[i]) most = std::max(most, traffic.paths[i]);
  }
  return most;
}

FlowCensus::FlowCensus(const State& state) {
  const std::size_t directions = 2 * state.topology.links().size();
  traffic_.paths.resize(directions);
  traffic_.achieved_bps.resize(directions);
}

FlowCensus FlowCensus::Take(const State& state) {
  FlowCensus census(state);
  for (const FlowSlot slot : state.flows.All()) census.Count(state, slot);
  return census;
}

void FlowCensus::Count(const State& state, FlowSlot slot) {
  const Flow& flow = state.flows.At(slot);
  const FlowActivity& activity = state.flows.ActivityOf(slot);
  const std::uint64_t bps = activity.achieved_bps;
  ++flows_;
  ++by_status_[static_cast<std::size_t>(flow.status)];
  unacknowledged_ += IsAcknowledged(state, slot) ? 0 : 1;
  JobFigures& job = jobs_[flow.job];
  ++job.flows;
  job.routed += flow.status == FlowStatus::kRouted ? 1 : 0;
  job.unroutable += flow.status == FlowStatus::kUnroutable ? 1 : 0;
  job.achieved_bps += bps;
  if (activity.IsBusy()) job.slowest_bps = std::min(job.slowest_bps.value_or(bps), bps);
  job.directions.resize(traffic_.paths.size());
  if (bps > 0) AddHostLinks(state, flow, bps, traffic_);
  for (const FlowWay& way : flow.ways) {
    const auto path = state.flow_paths.PathOf(way);
    if (!path) continue;
    for (const DirectedLink hop : state.PathsOf(flow)[path->Index()].hops) {
      ++traffic_.paths[hop.Index()];
      traffic_.achieved_bps[hop.Index()] += bps / flow.ways.size();
      job.directions[hop.Index()] = true;
    }
  }
}

std::int64_t FlowCensus::max_link_flows() const {
  return traffic_.paths.empty() ? 0 : std::ranges::max(traffic_.paths);
}

}  // namespace espalier::controller
