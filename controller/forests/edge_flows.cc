#include "controller/forests/edge_flows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "controller/forests/plan_delivery.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {
namespace {

// The flows of trees have numbers that agents, who count connections and their flows, do not reach.
constexpr std::uint64_t kFirstTreeFlow = std::uint64_t{1} << 63U;

}  // namespace

void EdgeFlows::Open(TreeJob& job) {
  JobPlan& plan = *job.in_force;
  for (std::size_t i = 0; i < plan.forest->edges.size(); ++i) {
    const TreeEdge& edge = plan.forest->edges[i];
    if (!edge.crossing) continue;
    Flow flow;
    flow.agent = AgentOfRank(state_, job, static_cast<std::size_t>(edge.from));
    flow.local = wire::LocalFlowId(kFirstTreeFlow + made_++);
    flow.job = state_.flows.JobIndex(job.spec.name, flow.agent);
    flow.key = ports_.KeyOf(plan, edge);
    flow.source_address = state_.topology.node(flow.key.source).addresses.front();
    flow.destination_address = state_.topology.node(flow.key.destination).addresses.front();
    flow.own_port = plan.ports[i];
    flow.protocol = plan.verbs ? wire::kProtocolUdp : wire::kProtocolTcp;
    flow.movable = false;
    flow.origin = plan.origin;
    flow.started = loop_.Now();
    flow.status = FlowStatus::kRouted;
    flow.source_leaf = edge.crossing->source_leaf;
    flow.destination_leaf = edge.crossing->destination_leaf;
    const double units = edge.crossing->rate_gbps * 1e9 /
                         static_cast<double>(state_.view.unit_bps()) *
                         static_cast<double>(kLoadUnit);
    flow.tree_load = std::max<std::int64_t>(1, std::llround(units));
    const auto way = state_.flow_paths.Reserve(flow.source_leaf, flow.destination_leaf,
                                               edge.crossing->path.value(), flow.tree_load);
    flow.ways = {{.way = way, .port = plan.ports[i], .port_path = edge.crossing->path}};
    const FlowSlot slot = state_.flows.Open(std::move(flow));
    plan.flows.push_back(slot);
  }
}

void EdgeFlows::Close(JobPlan& plan) {
  for (const FlowSlot slot : std::exchange(plan.flows, {})) {
    state_.flow_paths.Unreserve(*state_.flows.At(slot).ways[0].way);
    state_.flows.Close(slot);
  }
}

}  // namespace espalier::controller
