#include "controller/forests/tree_job.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/enum_names.h"

namespace espalier::controller {
namespace {

// Returns whether `back` passes the switches of `there` in reverse order.
bool PassesBack(const fabric::Topology& topology, const fabric::Path& there,
                const fabric::Path& back) {
  if (there.hops.size() != back.hops.size()) return false;
  const std::size_t between = there.hops.size() - 1;
  for (std::size_t i = 0; i < between; ++i) {
    if (topology.To(there.hops[i]) != topology.To(back.hops[between - 1 - i])) return false;
  }
  return true;
}

std::vector<TreeEdge> AckEdgesOf(const State& state, const JobForest& forest) {
  const auto key = [](const TreeEdge& edge) {
    return std::tuple(edge.from, edge.to, edge.channel);
  };
  std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t>> known;
  for (const TreeEdge& edge : forest.edges) known.insert(key(edge));
  std::vector<TreeEdge> ack_edges;
  for (const TreeEdge& edge : forest.edges) {
    if (!edge.crossing) continue;
    TreeEdge ack_edge = edge;
    std::swap(ack_edge.from, ack_edge.to);
    std::swap(ack_edge.source_nic, ack_edge.destination_nic);
    ack_edge.chunks = 0;
    if (!known.insert(key(ack_edge)).second) continue;
    std::swap(ack_edge.crossing->source_leaf, ack_edge.crossing->destination_leaf);
    const fabric::Path& there = PathOf(state, *edge.crossing);
    const auto back =
        state.paths.Between(ack_edge.crossing->source_leaf, ack_edge.crossing->destination_leaf);
    const auto same = std::find_if(back.begin(), back.end(), [&](const fabric::Path& path) {
      return PassesBack(state.topology, there, path);
    });
    if (same == back.end()) continue;
    ack_edge.crossing->path = fabric::PathIndex(static_cast<std::int32_t>(same - back.begin()));
    ack_edges.push_back(ack_edge);
  }
  return ack_edges;
}

// Whether the links of an edge's NICs to their leaves are in such a state. Those of ranks without
// another NIC do not count: no other forest could avoid them.
template <typename Accepts>
bool HaveUplinks(const State& state, const fabric::Topology& topology, const JobForest& forest,
                 const TreeEdge& edge, Accepts accepts) {
  if (!edge.leaves_host) return true;
  const std::pair<std::int32_t, fabric::NodeId> ends[] = {{edge.from, edge.source_nic},
                                                          {edge.to, edge.destination_nic}};
  return std::ranges::all_of(ends, [&](const auto& end) {
    const auto attachment = state.paths.FindAttachment(end.second);
    if (!forest.has_choice[static_cast<std::size_t>(end.first)] || !attachment) return true;
    // Of several uplinks, those on the edge's path are checked with it.
    return !attachment->uplink || accepts(topology.link(attachment->uplink->link).state);
  });
}

}  // namespace

std::string_view JobStatusName(JobStatus status) {
  static constexpr EnumNames<JobStatus> kJobStatusNames({
      {JobStatus::kPlanning, "PLANNING"},
      {JobStatus::kLearning, "LEARNING"},
      {JobStatus::kPushing, "PUSHING"},
      {JobStatus::kReady, "READY"},
      {JobStatus::kStuck, "STUCK"},
  });
  return kJobStatusNames.NameOf(status);
}

const fabric::Path& PathOf(const State& state, const TreeEdge::Crossing& crossing) {
  return state.paths.Between(crossing.source_leaf,
                             crossing.destination_leaf)[crossing.path.Index()];
}

bool IsUsable(const State& state, const fabric::Topology& topology, const JobPlan& plan) {
  const auto is_up = [](fabric::LinkState link) { return link == fabric::LinkState::kUp; };
  return std::all_of(plan.forest->edges.begin(), plan.forest->edges.end(), [&](const auto& edge) {
    return (!edge.crossing || fabric::IsUsable(topology, PathOf(state, *edge.crossing))) &&
           HaveUplinks(state, topology, *plan.forest, edge, is_up);
  });
}

bool MustUseOneNic(const State& state, const JobSpec& spec, std::span<const fabric::NodeId> ranks) {
  // The agents' own feature is older than that of the transports beside it.
  const char* const needed = spec.verbs || spec.offload ? "all_rank_nics" : "rank_nics";
  return std::ranges::any_of(ranks, [&](fabric::NodeId rank) {
    const auto agent = state.agents.FindByName(fabric::HostOf(state.topology.node(rank)));
    return !agent || !state.agents.At(*agent).Has(needed);
  });
}

bool TakesWholePrograms(const State& state, fabric::NodeId rank) {
  const auto agent = state.agents.FindByName(fabric::HostOf(state.topology.node(rank)));
  if (!agent) return false;
  const Agent& known = state.agents.At(*agent);
  return known.instance != 0 && !known.Has("rank_programs");
}

bool TakeWholePrograms(const State& state, std::span<const fabric::NodeId> ranks) {
  return std::ranges::any_of(ranks,
                             [&](fabric::NodeId rank) { return TakesWholePrograms(state, rank); });
}

bool IsUsable(const State& state, const JobPlan& plan) {
  return IsUsable(state, state.topology, plan);
}

bool IsAlive(const State& state, const JobPlan& plan) {
  const auto is_alive = [](fabric::LinkState link) { return link != fabric::LinkState::kDown; };
  return std::all_of(plan.forest->edges.begin(), plan.forest->edges.end(), [&](const auto& edge) {
    return (!edge.crossing || fabric::IsAlive(state.topology, PathOf(state, *edge.crossing))) &&
           HaveUplinks(state, state.topology, *plan.forest, edge, is_alive);
  });
}

JobPlan MakeJobPlan(const State& state, const TreeJob& job, std::shared_ptr<const JobForest> forest,
                    std::vector<std::uint16_t> listen_ports, DecisionOrigin origin) {
  JobPlan plan{.version = 0,
               .forest = std::move(forest),
               .listen_ports = std::move(listen_ports),
               .ports = {},
               .rejected_ports = {},
               .replaces_dead = false,
               .return_path_probed = {},
               .return_path_dead = false,
               .verbs = job.spec.verbs,
               .origin = origin,
               .ack_edges = {},
               .reserved = {}};
  if (plan.verbs) plan.ack_edges = AckEdgesOf(state, *plan.forest);
  plan.ports.resize(plan.forest->edges.size() + plan.ack_edges.size());
  return plan;
}

}  // namespace espalier::controller
