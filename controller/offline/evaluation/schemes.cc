#include "controller/offline/evaluation/schemes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <utility>

#include "common/base/enum_names.h"
#include "controller/offline/comparators/comparators.h"
#include "controller/offline/comparators/ilp.h"
#include "controller/offline/simulation/assignment_router.h"

namespace espalier::offline {
namespace {

using controller::Assignment;
using controller::Commodity;

constexpr EnumNames<Algorithm> kNames({
    {Algorithm::kGreedy, "greedy"},
    {Algorithm::kOptimal, "optimal"},
    {Algorithm::kAnnealing, "annealing"},
    {Algorithm::kIlp, "ilp"},
    {Algorithm::kEcmp, "ecmp"},
    {Algorithm::kConnections, "connections"},
    {Algorithm::kPhases, "phases"},
    {Algorithm::kIdeal, "ideal"},
});

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::string_view AlgorithmName(Algorithm algorithm) { return kNames.NameOf(algorithm); }

Result<std::vector<Algorithm>> ParseAlgorithms(std::string_view names) {
  std::vector<Algorithm> algorithms;
  if (names == "all") {
    for (std::size_t i = 0; i < kNames.kCount; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      if (algorithm != Algorithm::kIlp) algorithms.push_back(algorithm);
    }
    return algorithms;
  }
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view word = names.substr(begin, end - begin);
    const auto found = kNames.Find(word);
    if (!found) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--algorithm: unknown algorithm \"{}\" (give greedy, optimal, "
                              "annealing, ilp, ecmp, connections, phases, ideal, several with "
                              "commas, or all)",
                              word));
    }
    algorithms.push_back(*found);
    begin = end + 1;
  }
  return algorithms;
}

double PortsChangedPerEpoch(const JobOutcome& outcome) {
  return static_cast<double>(outcome.ports_changed) /
         static_cast<double>(outcome.epoch_seconds.size());
}

double TypicalMicroseconds(const std::vector<double>& assignment_seconds) {
  if (assignment_seconds.empty()) return 0;
  std::vector<double> sorted = assignment_seconds;
  std::ranges::sort(sorted);
  return 1e6 * sorted[sorted.size() / 2];
}

SchemeRunner::SchemeRunner(const fabric::Topology& topology, const Workload& workload,
                           SolveIlp solve_ilp)
    : workload_(workload),
      paths_(topology),
      view_(topology, paths_),
      assigner_(view_),
      solve_ilp_(std::move(solve_ilp)) {}

Result<SchemeRun> SchemeRunner::Run(const Scheme& scheme, const SimulationOptions& options) {
  SchemeRun run;
  run.scheme = scheme;
  const auto start = std::chrono::steady_clock::now();
  Result<void> solved;  // or the solver's first error
  AssignmentRouter router(workload_, view_, scheme.split, MakeAssign(scheme, run, solved));
  SimulationOptions scheme_options = options;
  scheme_options.is_ideal = scheme.algorithm == Algorithm::kIdeal;
  if (AssignsConnections(scheme.algorithm)) scheme_options.live_flows = LiveFlows::kConnections;
  auto outcome = Simulate(workload_, router, scheme_options);
  if (!solved) return Propagate(solved);
  if (!outcome) return Propagate(outcome);
  run.outcome = std::move(*outcome);
  run.wall_seconds = SecondsSince(start);
  if (scheme.algorithm == Algorithm::kEcmp) run.overlap = EcmpOverlap(router, scheme);
  return run;
}

AssignmentRouter::Assign SchemeRunner::MakeAssign(const Scheme& scheme, SchemeRun& run,
                                                  Result<void>& solved) {
  using Commodities = std::span<const Commodity>;
  using Flows = std::span<const std::uint32_t>;
  if (AssignsConnections(scheme.algorithm)) {
    auto connections = std::make_shared<ConnectionAssigner>(view_);
    auto phases = std::make_shared<PhaseAssigner>(view_, workload_);
    return [this, &scheme, &run, connections, phases](Commodities commodities, Flows flows) {
      const auto begin = std::chrono::steady_clock::now();
      Assignment assignment = scheme.algorithm == Algorithm::kPhases
                                  ? phases->Assign(commodities, flows)
                                  : connections->Assign(commodities, flows);
      run.assignment_seconds.push_back(SecondsSince(begin));
      NoteOverlap(ComputeWorstOverlap(view_, workload_, commodities, flows, assignment), run);
      return assignment;
    };
  }
  return [this, &scheme, &run, &solved](Commodities commodities, Flows flows) {
    const auto begin = std::chrono::steady_clock::now();
    const std::size_t solved_before = solved_.size();
    Assignment assignment;
    if (scheme.algorithm == Algorithm::kIlp) {
      auto by_ilp = AssignByIlp(commodities, flows, scheme.split);
      if (!by_ilp && solved) solved = Propagate(by_ilp);
      if (by_ilp) assignment = std::move(*by_ilp);
    }
    // After a failure of the solver, any assignment will do: the result is dropped at the end.
    if (assignment.first.empty()) assignment = Assign(scheme, commodities, flows);
    const bool is_known = scheme.algorithm == Algorithm::kIlp && solved_.size() == solved_before;
    if (!is_known) run.assignment_seconds.push_back(SecondsSince(begin));
    const bool is_kept = scheme.algorithm == Algorithm::kEcmp;
    if (!is_kept) NoteOverlap({assignment.max_load, assignment.lower_bound}, run);
    return assignment;
  };
}

void SchemeRunner::NoteOverlap(const WorstOverlap& overlap, SchemeRun& run) {
  const auto key = [](const WorstOverlap& o) { return std::pair(o.load, o.lower_bound); };
  if (key(overlap) > key(run.overlap)) run.overlap = overlap;
}

// A hash keeps the path of every connection, so that all phases of all jobs can be compared.
WorstOverlap SchemeRunner::EcmpOverlap(const AssignmentRouter& router, const Scheme& scheme) {
  std::vector<std::uint32_t> flows(workload_.flows().size());
  std::iota(flows.begin(), flows.end(), 0U);
  return ComputeWorstOverlap(view_, workload_, router.commodities(), flows,
                             Assign(scheme, router.commodities(), flows));
}

Assignment SchemeRunner::Assign(const Scheme& scheme, std::span<const Commodity> commodities,
                                std::span<const std::uint32_t> flows) {
  if (scheme.algorithm == Algorithm::kGreedy) return AssignGreedily(commodities);
  if (scheme.algorithm == Algorithm::kOptimal) return assigner_.Optimal(commodities);
  if (scheme.algorithm == Algorithm::kAnnealing) {
    return AssignByAnnealing(view_, commodities, {.seed = scheme.seed});
  }
  // For the ideal scheme any path will do.
  const std::vector<std::uint64_t> keys(flows.begin(), flows.end());
  return AssignByHash(view_, commodities, keys, scheme.seed);
}

Result<Assignment> SchemeRunner::AssignByIlp(std::span<const Commodity> commodities,
                                             std::span<const std::uint32_t> flows,
                                             std::uint32_t split) {
  const std::pair key(split, std::vector<std::uint32_t>(flows.begin(), flows.end()));
  if (const auto known = solved_.find(key); known != solved_.end()) return known->second;
  const IlpProgram program(view_, commodities);
  std::string solution;
  if (!program.text().empty()) {
    auto answer = solve_ilp_(program.text());
    if (!answer) return Propagate(answer);
    solution = std::move(*answer);
  }
  auto assignment = program.ReadSolution(solution);
  if (assignment) solved_.emplace(key, *assignment);
  return assignment;
}

// Assigns in the order that the paper's authors use; the result is in the order of the commodities.
Assignment SchemeRunner::AssignGreedily(std::span<const Commodity> commodities) {
  const std::vector<std::uint32_t> order = controller::PaperOrder(commodities);
  std::vector<Commodity> ordered;
  for (const std::uint32_t i : order) ordered.push_back(commodities[i]);
  const Assignment& greedy = assigner_.Greedy(ordered);
  Assignment assignment = greedy;
  std::vector<std::uint32_t> place(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  assignment.paths.clear();
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    assignment.first[i] = static_cast<std::uint32_t>(assignment.paths.size());
    const auto paths = greedy.PathsOf(place[i]);
    assignment.paths.insert(assignment.paths.end(), paths.begin(), paths.end());
  }
  return assignment;
}

Result<void> FailLastSpines(fabric::Topology& topology, int count) {
  const fabric::PathTable paths(topology);
  for (std::size_t i = topology.nodes().size(); i-- > 0 && count > 0;) {
    const fabric::NodeId node(static_cast<std::int32_t>(i));
    if (topology.node(node).kind != fabric::NodeKind::kSwitch || paths.Tier(node) != 1) continue;
    --count;
    for (std::size_t link = 0; link < topology.links().size(); ++link) {
      const fabric::LinkId id(static_cast<std::int32_t>(link));
      if (topology.link(id).a == node || topology.link(id).b == node) {
        topology.SetLinkState(id, fabric::LinkState::kDown);
      }
    }
  }
  if (count <= 0) return {};
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("--failed-spines exceeds the number of spines in the topology by {}", count));
}

}  // namespace espalier::offline
