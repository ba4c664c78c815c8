#include "controller/cli/flow_planner.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "common/base/check.h"
#include "controller/cli/solver.h"
#include "controller/routing/comparators/comparators.h"
#include "controller/routing/comparators/ilp.h"
#include "controller/routing/rates.h"

namespace espalier::cli {
namespace {

using controller::Assignment;
using controller::Commodity;
using files::FlowRecord;
using files::FlowState;
using files::Plan;
using files::PlannedFlow;
using files::PlannedPath;

// A flow's key for ECMP depends on its name alone, so that it keeps its path whatever else is in
// the file. (FNV-1a)
std::uint64_t HashName(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

}  // namespace

FlowPlanner::FlowPlanner(const fabric::Topology& topology, fabric::PathTable& paths,
                         const files::FlowSet& flows, std::uint32_t split)
    : flows_(flows), split_(split), view_(topology, paths) {
  for (std::size_t i = 0; i < flows.flows.size(); ++i) {
    const FlowRecord& flow = flows.flows[i];
    const auto source = paths.FindAttachment(flow.source);
    const auto destination = paths.FindAttachment(flow.destination);
    ESPALIER_CHECK(source && destination);
    fabric::DirectedLink downlink = destination->uplink;
    downlink.forward = !downlink.forward;
    const Commodity commodity = {.source = *view_.LeafOf(source->leaf),
                                 .destination = *view_.LeafOf(destination->leaf),
                                 .job = flow.job,
                                 .ways = split,
                                 .source_link = static_cast<std::uint32_t>(source->uplink.Index()),
                                 .destination_link = static_cast<std::uint32_t>(downlink.Index())};
    if (view_.capacities()[commodity.source_link] == 0) continue;
    if (view_.capacities()[commodity.destination_link] == 0) continue;
    commodities_.push_back(commodity);
    flow_of_.push_back(i);
  }
}

Result<Plan> FlowPlanner::Assign(Algorithm algorithm, std::uint64_t seed) {
  const auto begin = std::chrono::steady_clock::now();
  auto assignment = RunAlgorithm(algorithm, seed);
  const auto end = std::chrono::steady_clock::now();
  if (!assignment) return Propagate(assignment);
  Plan plan = MakePlan(*assignment);
  plan.algorithm = AlgorithmName(algorithm);
  plan.microseconds = std::chrono::duration<double, std::micro>(end - begin).count();
  return plan;
}

Result<Assignment> FlowPlanner::RunAlgorithm(Algorithm algorithm, std::uint64_t seed) {
  controller::Assigner assigner(view_);
  if (algorithm == Algorithm::kGreedy) return assigner.Greedy(commodities_);
  if (algorithm == Algorithm::kOptimal) return assigner.Optimal(commodities_);
  if (algorithm == Algorithm::kAnnealing) {
    return controller::AssignByAnnealing(view_, commodities_, {.seed = seed});
  }
  if (algorithm == Algorithm::kIlp) {
    const controller::IlpProgram program(view_, commodities_);
    if (program.text().empty()) return program.ReadSolution("");
    auto solution = SolveWithCbc(program.text());
    if (!solution) return Propagate(solution);
    return program.ReadSolution(*solution);
  }
  std::vector<std::uint64_t> keys;
  for (const std::size_t flow : flow_of_) keys.push_back(HashName(flows_.flows[flow].id));
  return controller::AssignByHash(view_, commodities_, keys, seed);
}

Plan FlowPlanner::MakePlan(const Assignment& assignment) {
  Plan plan;
  plan.max_load = assignment.max_load;
  plan.lower_bound = assignment.lower_bound;
  plan.flows.resize(flows_.flows.size(), {.ways = split_});
  std::vector<double> rates(flows_.flows.size());  // 0 for what is not routed
  controller::RatePredictor predictor(view_);
  const std::span<const double> predicted = predictor.Predict(commodities_, assignment);
  for (std::size_t i = 0; i < commodities_.size(); ++i) {
    PlannedFlow& flow = plan.flows[flow_of_[i]];
    rates[flow_of_[i]] = predicted[i];
    const bool is_local = commodities_[i].source == commodities_[i].destination;
    if (is_local) flow.state = FlowState::kLocal;
    if (is_local || assignment.PathsOf(i).front() == controller::kNoPath) continue;
    flow.state = FlowState::kRouted;
    flow.paths = PathsOf(commodities_[i], assignment.PathsOf(i));
  }
  plan.job_rates_bps.assign(flows_.jobs.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < rates.size(); ++i) {
    double& slowest = plan.job_rates_bps[flows_.flows[i].job];
    slowest = std::min(slowest, rates[i]);
  }
  return plan;
}

std::vector<PlannedPath> FlowPlanner::PathsOf(const Commodity& commodity,
                                              std::span<const std::int32_t> paths) {
  std::vector<std::int32_t> sorted(paths.begin(), paths.end());
  std::ranges::sort(sorted);
  std::vector<PlannedPath> planned;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i] == sorted[i - 1]) {
      ++planned.back().ways;
      continue;
    }
    PlannedPath& path = planned.emplace_back();
    path.links.push_back(commodity.source_link);
    view_.AppendHops(commodity.source, commodity.destination, sorted[i], path.links);
    path.links.push_back(commodity.destination_link);
  }
  return planned;
}

}  // namespace espalier::cli
