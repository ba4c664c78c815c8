#include "controller/forests/tree_job.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/enum_names.h"

namespace espalier::controller {
namespace {

// Whether it passes the switches of the other in reverse.
bool PassesBack(const fabric::Topology& topology, const fabric::Path& there,
                const fabric::Path& back) {
  if (there.hops.size() != back.hops.size()) return false;
  const std::size_t between = there.hops.size() - 1;
  for (std::size_t i = 0; i < between; ++i) {
    if (topology.To(there.hops[i]) != topology.To(back.hops[between - 1 - i])) return false;
  }
  return true;
}

std::vector<TreeEdge> AnswersOf(const State& state, const JobForest& forest) {
  const auto key = [](const TreeEdge& edge) {
    return std::tuple(edge.from, edge.to, edge.channel);
  };
  std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t>> known;
  for (const TreeEdge& edge : forest.edges) known.insert(key(edge));
  std::vector<TreeEdge> answers;
  for (const TreeEdge& edge : forest.edges) {
    if (!edge.crossing) continue;
    TreeEdge answer = edge;
    std::swap(answer.from, answer.to);
    answer.chunks = 0;
    if (!known.insert(key(answer)).second) continue;
    std::swap(answer.crossing->source_leaf, answer.crossing->destination_leaf);
    const fabric::Path& there = PathOf(state, *edge.crossing);
    const auto back =
        state.paths.Between(answer.crossing->source_leaf, answer.crossing->destination_leaf);
    const auto same = std::find_if(back.begin(), back.end(), [&](const fabric::Path& path) {
      return PassesBack(state.topology, there, path);
    });
    if (same == back.end()) continue;
    answer.crossing->path = fabric::PathIndex(static_cast<std::int32_t>(same - back.begin()));
    answers.push_back(answer);
  }
  return answers;
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

bool IsUsable(const State& state, const JobPlan& plan) {
  return std::all_of(plan.forest->edges.begin(), plan.forest->edges.end(), [&](const auto& edge) {
    return !edge.crossing || fabric::IsUsable(state.topology, PathOf(state, *edge.crossing));
  });
}

bool IsAlive(const State& state, const JobPlan& plan) {
  return std::all_of(plan.forest->edges.begin(), plan.forest->edges.end(), [&](const auto& edge) {
    return !edge.crossing || fabric::IsAlive(state.topology, PathOf(state, *edge.crossing));
  });
}

JobPlan MakeJobPlan(const State& state, const TreeJob& job, std::shared_ptr<const JobForest> forest,
                    std::vector<std::uint16_t> listen_ports, DecisionOrigin origin) {
  JobPlan plan{.version = 0,
               .forest = std::move(forest),
               .listen_ports = std::move(listen_ports),
               .ports = {},
               .refused = {},
               .replaces_dead = false,
               .return_path_probed = {},
               .return_path_dead = false,
               .verbs = job.spec.verbs,
               .origin = origin,
               .answers = {},
               .reserved = {}};
  if (plan.verbs) plan.answers = AnswersOf(state, *plan.forest);
  plan.ports.resize(plan.forest->edges.size() + plan.answers.size());
  return plan;
}

}  // namespace espalier::controller
