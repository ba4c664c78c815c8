#include "deploy/cli/planning/assign_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "common/files/command_result.h"
#include "common/files/json.h"
#include "common/files/topology_file.h"
#include "controller/offline/evaluation/flow_set_assigner.h"
#include "controller/offline/files/flow_file.h"

namespace espalier::cli {
namespace {

using controller::Load;
using offline::Algorithm;
using offline::AlgorithmName;
using offline::AssignedFlow;
using offline::AssignmentResult;
using offline::AssignmentState;
using offline::FlowSet;
using offline::FlowSetAssigner;
using offline::ParseAlgorithms;

struct Request {
  std::string topology;
  std::string flows;
  std::string algorithm = "optimal";
  std::uint32_t split = 1;
  std::uint64_t seed = 0;
  std::string previous;
  FlowSetAssigner::MoveBudget budget;
  bool json = false;
};

std::string ViaText(const AssignedFlow& flow, const fabric::Topology& topology) {
  std::string text;
  for (const offline::AssignedPath& path : flow.paths) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}", fmt::join(offline::ViaOf(path, topology), " "));
    if (flow.subflows > 1) text += " " + offline::ShareOf(path, flow);
  }
  return text;
}

// "2, at least 3/2 (gap 1/2)".
std::string LoadText(const AssignmentResult& plan) {
  const Load& most = plan.max_load;
  const Load& least = plan.lower_bound;
  if (most == least) return most.ToString() + " (no assignment has less)";
  return fmt::format("{} (no assignment has less than {}: gap {:.3g})", most.ToString(),
                     least.ToString(), most.Value() - least.Value());
}

void PrintFlows(const AssignmentResult& plan, const FlowSet& flows,
                const fabric::Topology& topology) {
  std::size_t width = 4;
  for (const offline::FlowRecord& flow : flows.flows) width = std::max(width, flow.id.size());
  std::string text = fmt::format("{:{}}  {:10}  VIA\n", "FLOW", width, "STATE");
  for (std::size_t i = 0; i < plan.flows.size(); ++i) {
    const AssignedFlow& flow = plan.flows[i];
    const std::string via = ViaText(flow, topology);
    fmt::format_to(std::back_inserter(text), "{:{}}  {:10}  {}\n", flows.flows[i].id, width,
                   offline::AssignmentStateName(flow.state), via.empty() ? "-" : via);
  }
  std::fputs(text.c_str(), stdout);
}

void PrintSummary(const AssignmentResult& plan, const FlowSet& flows) {
  std::size_t width = 3;
  for (const std::string& job : flows.jobs) width = std::max(width, job.size());
  fmt::print("\n{:{}}  SLOWEST_FLOW_GBPS\n", "JOB", width);
  for (std::size_t job = 0; job < flows.jobs.size(); ++job) {
    fmt::print("{:{}}  {}\n", flows.jobs[job], width, offline::RateText(plan.job_rates_bps[job]));
  }
  fmt::print(
      "\n{}: {} flows ({} routed, {} local, {} unroutable), {} moved, in {:.1f} us\n"
      "flows on the most loaded link: {}\n",
      plan.algorithm, plan.flows.size(), plan.Count(AssignmentState::kRouted),
      plan.Count(AssignmentState::kLocal), plan.Count(AssignmentState::kUnroutable),
      plan.moved_flows, plan.microseconds, LoadText(plan));
}

void Warn(const AssignmentResult& plan, const Request& request) {
  if (plan.flows.empty()) {
    fmt::print(stderr, "espalier: {}: no flow in the file, nothing to do\n", request.flows);
  }
  if (const std::int64_t lost = plan.Count(AssignmentState::kUnroutable); lost > 0) {
    fmt::print(stderr,
               "espalier: {} of {} flows have no usable path (UNROUTABLE: look for links that are "
               "DOWN or DRAINED)\n",
               lost, plan.flows.size());
  }
}

Result<AssignmentResult> MakePlan(const Request& request, Algorithm algorithm,
                                  FlowSetAssigner& planner) {
  if (request.previous.empty()) return planner.Assign(algorithm, request.seed);
  const auto text = io::ReadFile(request.previous);
  if (!text) return tl::unexpected<Error>(text.error());
  const auto previous = offline::ParsePreviousAssignment(*text, request.previous);
  if (!previous) return tl::unexpected<Error>(previous.error());
  AssignmentResult plan = planner.Repair(*previous, request.budget);
  plan.algorithm = AlgorithmName(algorithm);
  return plan;
}

int RunAssign(const Request& request) {
  const auto algorithms = ParseAlgorithms(request.algorithm);
  if (!algorithms) return io::ReportError(algorithms.error());
  auto topology = io::ReadTopologyFile(request.topology);
  if (!topology) return io::ReportError(topology.error());
  const auto text = io::ReadFile(request.flows);
  if (!text) return io::ReportError(text.error());
  fabric::PathTable paths(*topology);
  const auto flows = offline::ParseFlows(*text, request.flows, *topology, paths);
  if (!flows) return io::ReportError(flows.error());

  FlowSetAssigner planner(*topology, paths, *flows, request.split);
  const auto plan = MakePlan(request, algorithms->front(), planner);
  if (!plan) return io::ReportError(plan.error());
  if (request.json) {
    fmt::print("{}\n", offline::FormatAssignment(*plan, *flows, *topology));
  } else {
    PrintFlows(*plan, *flows, *topology);
    PrintSummary(*plan, *flows);
  }
  Warn(*plan, request);
  return 0;
}

}  // namespace

void AddAssignCommand(CLI::App& app, int& exit_code) {
  auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand(
      "assign",
      "Choose paths for a set of flows: which spines each takes, and how loaded links get");
  command->add_option("--topology", request->topology, "Topology file")->required();
  command
      ->add_option("--flows", request->flows,
                   "Flows, comma-separated, with the header flow,job,src,dst,bytes")
      ->required();
  command
      ->add_option("--algorithm", request->algorithm,
                   "optimal: least load, jobs as fast as can be; greedy: flow by flow, the least "
                   "loaded path; to compare with: annealing, ecmp (a hash), ilp (needs cbc, from "
                   "Debian's coinor-cbc; up to two minutes)")
      ->capture_default_str()
      ->check(CLI::IsMember({"optimal", "greedy", "annealing", "ilp", "ecmp"}));
  command->add_option("--split", request->split, "Paths (queue pairs) a flow is split over")
      ->capture_default_str()
      ->check(CLI::Range(1U, controller::kMaxSubflows));
  command->add_option("--seed", request->seed, "Seed of ecmp and annealing")->capture_default_str();
  CLI::Option* previous = command->add_option(
      "--previous", request->previous,
      "A plan printed by assign --json: flows keep its paths, but where they are new or the path "
      "is not usable any more (optimal only)");
  command
      ->add_option("--move-budget", request->budget.moves,
                   "How many more moves of flows may bring the load down to the optimum")
      ->capture_default_str()
      ->needs(previous);
  command
      ->add_option("--move-bytes", request->budget.bytes,
                   "How many bytes the flows that these moves take may have in all (any number)")
      ->check(CLI::NonNegativeNumber)
      ->needs(previous);
  command->add_flag("--json", request->json, "One JSON object on standard output");
  command->callback([request, &exit_code] {
    if (!request->previous.empty() && request->algorithm != "optimal") {
      throw CLI::ValidationError("--previous", "goes with --algorithm optimal only");
    }
    exit_code = RunAssign(*request);
  });
}

}  // namespace espalier::cli
