#include "controller/forests/plan_reservations.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "controller/forests/plan_delivery.h"
#include "controller/routing/model/assignment.h"

namespace espalier::controller {
namespace {

std::int64_t LoadOf(const State& state, const TreeEdge::Crossing& crossing) {
  const double units = crossing.rate_gbps * 1e9 / static_cast<double>(state.view.unit_bps()) *
                       static_cast<double>(kLoadUnit);
  return std::max<std::int64_t>(1, std::llround(units));
}

}  // namespace

void ReserveEdges(State& state, TreeJob& job, const EdgePorts& ports, TimePoint now) {
  JobPlan& plan = *job.active;
  for (std::size_t i = 0; i < plan.forest->edges.size(); ++i) {
    const TreeEdge& edge = plan.forest->edges[i];
    if (!edge.crossing) continue;
    const AgentId agent = AgentOfRank(state, job, static_cast<std::size_t>(edge.from));
    plan.reserved.push_back(
        state.edges.Open(agent, {.job = state.flows.JobIndex(job.spec.name, agent),
                                 .key = ports.KeyOf(plan, edge),
                                 .source_port = plan.ports[i],
                                 .protocol = plan.verbs ? wire::kProtocolUdp : wire::kProtocolTcp,
                                 .source_leaf = edge.crossing->source_leaf,
                                 .destination_leaf = edge.crossing->destination_leaf,
                                 .path = edge.crossing->path,
                                 .load = LoadOf(state, *edge.crossing),
                                 .origin = plan.origin,
                                 .started = now}));
  }
}

void ReleaseEdges(State& state, JobPlan& plan) {
  for (const EdgeName& name : std::exchange(plan.reserved, {})) state.edges.Close(name);
}

}  // namespace espalier::controller
