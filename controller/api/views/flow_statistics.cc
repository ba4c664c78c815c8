#include "controller/api/views/flow_statistics.h"

#include <algorithm>

#include "controller/placement/loads/load_summary.h"

namespace espalier::controller {
namespace {

using fabric::DirectedLink;

// Adds up to what the link carries, and returns how much that was.
std::uint64_t AddUpToRate(const State& state, DirectedLink link, std::uint64_t bps,
                          std::uint64_t& sum) {
  const auto rate = static_cast<std::uint64_t>(state.topology.link(link.link).rate.value);
  const std::uint64_t added = std::min(bps, rate - std::min(rate, sum));
  sum += added;
  return added;
}

// Counts the flow's rate for the job and on the links of its NICs.
void AddAtHosts(const State& state, const ShownFlow& flow, JobStatistics& job,
                LinkTraffic& traffic) {
  const std::uint64_t bps = flow.activity.achieved_bps;
  const auto link_of = [&](const IpAddress& address) {
    const auto nic = state.topology.FindNic(address);
    const auto attachment = nic ? state.paths.FindAttachment(*nic) : std::nullopt;
    return attachment ? std::optional(attachment->uplink) : std::nullopt;
  };
  if (const auto link = link_of(flow.source_address)) {
    AddUpToRate(state, *link, bps, traffic.achieved_bps[link->Index()]);
    job.achieved_bps += AddUpToRate(state, *link, bps, job.sent_bps[link->Index()]);
  } else {
  }
  if (auto link = link_of(flow.destination_address)) {
    link->forward = !link->forward;
    AddUpToRate(state, *link, bps, traffic.achieved_bps[link->Index()]);
  }
}

}  // namespace

std::int64_t JobStatistics::MaxLinkFlows(const LinkTraffic& traffic) const {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < directions.size(); ++i) {
    if (directions[i]) most = std::max(most, traffic.paths[i]);
  }
  return most;
}

FlowStatistics::FlowStatistics(const State& state) {
  const std::size_t directions = 2 * state.topology.links().size();
  traffic_.paths.resize(directions);
  traffic_.achieved_bps.resize(directions);
  traffic_.loads = BusiestLoads(state);
}

FlowStatistics FlowStatistics::Take(const State& state) {
  FlowStatistics statistics(state);
  for (const FlowSlot slot : state.flows.All()) statistics.Count(state, Show(state, slot));
  for (const auto& [name, edge] : state.edges.all())
    statistics.Count(state, Show(state, name, edge));
  return statistics;
}

void FlowStatistics::Count(const State& state, const ShownFlow& flow) {
  const std::uint64_t bps = flow.activity.achieved_bps;
  ++flows_;
  ++by_status_[static_cast<std::size_t>(flow.status)];
  unacknowledged_ += flow.is_acknowledged ? 0 : 1;
  JobStatistics& job = jobs_[flow.job];
  // An edge of the job's plan, which is counted too, stands for a flow with a fixed path.
  if (flow.status != FlowStatus::kFixed) ++job.flows;
  job.routed += flow.status == FlowStatus::kRouted ? 1 : 0;
  job.unroutable += flow.status == FlowStatus::kUnroutable ? 1 : 0;
  if (flow.activity.IsBusy()) job.slowest_bps = std::min(job.slowest_bps.value_or(bps), bps);
  job.directions.resize(traffic_.paths.size());
  if (bps > 0) AddAtHosts(state, flow, job, traffic_);
  for (const ShownFlow::Subflow& subflow : flow.subflows) {
    if (!subflow.path) continue;
    const auto paths = state.paths.Between(flow.source_leaf, flow.destination_leaf);
    for (const DirectedLink hop : paths[subflow.path->Index()].hops) {
      ++traffic_.paths[hop.Index()];
      AddUpToRate(state, hop,
                  bps * static_cast<std::uint64_t>(subflow.share) / std::uint64_t{kLoadUnit},
                  traffic_.achieved_bps[hop.Index()]);
      job.directions[hop.Index()] = true;
    }
  }
}

std::int64_t FlowStatistics::max_link_flows() const {
  return traffic_.paths.empty() ? 0 : std::ranges::max(traffic_.paths);
}

}  // namespace espalier::controller
