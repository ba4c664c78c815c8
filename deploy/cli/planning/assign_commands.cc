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
#include "common/files/file.h"
#include "common/files/topology_file.h"
#include "controller/offline/evaluation/flow_set_assigner.h"
#include "controller/offline/files/flow_file.h"
#include "controller/offline/files/replay_files.h"
#include "controller/routing/fabric/unreached_paths.h"
#include "deploy/cli/planning/replay_export.h"

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
  std::string shares{controller::SharesName(controller::Shares::kEqual)};
  std::uint64_t seed = 0;
  std::string previous;
  FlowSetAssigner::MoveBudget budget;
  ReplayExport replay;
  bool json = false;
};

std::string ViaText(const AssignedFlow& flow, const fabric::Topology& topology) {
  std::string text;
  for (const offline::AssignedPath& path : flow.paths) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}", fmt::join(offline::ViaOf(path, topology), " "));
    if (flow.subflows > 1) text += " " + offline::ShareOf(path);
  }
  return text;
}

// "1 (optimal)", "2 (lower bound 3/2, gap 0.5)".
std::string LoadText(const AssignmentResult& result) {
  const Load& most = result.max_load;
  const Load& least = result.lower_bound;
  if (most == least) return most.ToString() + " (optimal)";
  return fmt::format("{} (lower bound {}, gap {:.3g})", most.ToString(), least.ToString(),
                     most.Value() - least.Value());
}

// "why it is optimal: …" and, on more than two tiers, "flows on the most loaded link by tier: …".
std::string TierText(const AssignmentResult& result) {
  std::string text;
  if (result.proof != controller::Proof::kNone) {
    text += fmt::format("why it is optimal: {}\n", controller::ProofText(result.proof));
  }
  if (result.tiers.size() < 2) return text;
  text += "flows on the most loaded link of each tier, leaves first:";
  for (const AssignmentResult::Tier& tier : result.tiers) {
    text +=
        fmt::format(" {} (lower bound {})", tier.max_load.ToString(), tier.lower_bound.ToString());
  }
  return text + "\n";
}

void PrintFlows(const AssignmentResult& result, const FlowSet& flows,
                const fabric::Topology& topology) {
  std::size_t width = 4;
  for (const offline::FlowRecord& flow : flows.flows) width = std::max(width, flow.id.size());
  std::string text = fmt::format("{:{}}  {:10}  VIA\n", "FLOW", width, "STATE");
  for (std::size_t i = 0; i < result.flows.size(); ++i) {
    const AssignedFlow& flow = result.flows[i];
    const std::string via = ViaText(flow, topology);
    fmt::format_to(std::back_inserter(text), "{:{}}  {:10}  {}\n", flows.flows[i].id, width,
                   offline::AssignmentStateName(flow.state), via.empty() ? "-" : via);
  }
  std::fputs(text.c_str(), stdout);
}

void PrintSummary(const AssignmentResult& result, const FlowSet& flows) {
  std::size_t width = 3;
  for (const std::string& job : flows.jobs) width = std::max(width, job.size());
  fmt::print("\n{:{}}  SLOWEST_FLOW_GBPS\n", "JOB", width);
  for (std::size_t job = 0; job < flows.jobs.size(); ++job) {
    fmt::print("{:{}}  {}\n", flows.jobs[job], width, offline::RateText(result.job_rates_bps[job]));
  }
  fmt::print(
      "\n{}: {} flows ({} routed, {} local, {} unroutable), {} moved, in {:.1f} us\n"
      "flows on the most loaded link: {}\n{}",
      result.algorithm, result.flows.size(), result.Count(AssignmentState::kRouted),
      result.Count(AssignmentState::kLocal), result.Count(AssignmentState::kUnroutable),
      result.moved_flows, result.microseconds, LoadText(result), TierText(result));
}

void Warn(const AssignmentResult& result, const Request& request) {
  if (result.flows.empty()) {
    fmt::print(stderr, "espalier: {}: the file has no flows, nothing to do\n", request.flows);
  }
  if (const std::int64_t lost = result.Count(AssignmentState::kUnroutable); lost > 0) {
    fmt::print(stderr,
               "espalier: {} of {} flows have no usable path (UNROUTABLE: look for links that are "
               "DOWN or DRAINED)\n",
               lost, result.flows.size());
  }
}

// An assignment chooses among all paths, also where no source port takes some of them.
void WarnOfUnreached(const fabric::Topology& topology, fabric::PathTable& paths) {
  const auto unreached = controller::FindUnreachedPaths(topology, paths);
  const std::string text = unreached ? controller::DescribeUnreached(topology, *unreached) : "";
  if (text.empty()) return;
  fmt::print(stderr, "espalier: this assignment may need paths that flows cannot take: {}\n", text);
}

Result<AssignmentResult> MakeAssignment(const Request& request, Algorithm algorithm,
                                        FlowSetAssigner& assigner) {
  if (request.previous.empty())
    return assigner.Assign(algorithm, request.seed, *controller::FindShares(request.shares));
  const auto text = io::ReadFile(request.previous);
  if (!text) return tl::unexpected<Error>(text.error());
  const auto previous = offline::ParsePreviousAssignment(*text, request.previous);
  if (!previous) return tl::unexpected<Error>(previous.error());
  AssignmentResult result = assigner.Repair(*previous, request.budget);
  result.algorithm = AlgorithmName(algorithm);
  return result;
}

// Writes the files of --export.
Result<void> Export(const Request& request, const AssignmentResult& result, const FlowSet& flows,
                    const fabric::Topology& topology) {
  const auto replay = offline::ReplayOf(result, flows, request.flows);
  if (!replay) return tl::unexpected<Error>(replay.error());
  return WriteReplay(request.replay, *replay, topology);
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

  FlowSetAssigner assigner(*topology, paths, *flows, request.split);
  const auto result = MakeAssignment(request, algorithms->front(), assigner);
  if (!result) return io::ReportError(result.error());
  if (request.replay.IsWanted()) {
    const Result<void> exported = Export(request, *result, *flows, *topology);
    if (!exported) return io::ReportError(exported.error());
  }
  if (request.json) {
    fmt::print("{}\n", offline::FormatAssignment(*result, *flows, *topology));
  } else {
    PrintFlows(*result, *flows, *topology);
    PrintSummary(*result, *flows);
  }
  Warn(*result, request);
  WarnOfUnreached(*topology, paths);
  return 0;
}

void AddSplit(CLI::App& command, Request& request) {
  command
      .add_option("--split", request.split,
                  "Number of subflows (queue pairs) that each flow is split into")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(1U, controller::kMaxSubflows));
  command
      .add_option("--shares", request.shares,
                  "Division of flows over their subflows (only with --algorithm optimal and "
                  "--split). equal: in equal parts; exact: for the least load. Where "
                  "equal parts do as well, they stay")
      ->capture_default_str()
      ->check(CLI::IsMember({"equal", "exact"}));
}

void CheckShares(const Request& request) {
  if (request.shares == SharesName(controller::Shares::kEqual)) return;
  if (request.algorithm != "optimal" || !request.previous.empty()) {
    throw CLI::ValidationError(
        "--shares", "works only with --algorithm optimal and without --previous (leave it out)");
  }
  if (request.split < 2) {
    throw CLI::ValidationError("--shares", "needs flows of several subflows (give --split 2)");
  }
}

}  // namespace

void AddAssignCommand(CLI::App& app, int& exit_code) {
  auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand(
      "assign", "Assign paths to a set of flows and print the maximum load of a link");
  command->add_option("--topology", request->topology, "Topology file")->required();
  command
      ->add_option("--flows", request->flows,
                   "CSV file of flows with the header flow,job,src,dst,bytes (bytes may be empty)")
      ->required();
  command
      ->add_option("--algorithm", request->algorithm,
                   "Algorithm; optimal: minimum load, then fairest job rates; greedy: flow by flow "
                   "the least loaded path; for comparison annealing, ecmp (a hash) and ilp (an "
                   "integer program: needs cbc of Debian's coinor-cbc, takes up to two minutes)")
      ->capture_default_str()
      ->check(CLI::IsMember({"optimal", "greedy", "annealing", "ilp", "ecmp"}));
  AddSplit(*command, *request);
  command->add_option("--seed", request->seed, "Random seed of ecmp and annealing")
      ->type_name("SEED")
      ->capture_default_str();
  CLI::Option* previous = command->add_option(
      "--previous", request->previous,
      "Assignment printed by `espalier assign --json`, whose flows keep their usable paths (only "
      "with --algorithm optimal)");
  command
      ->add_option(
          "--move-budget", request->budget.moves,
          "Number of subflows that may be moved off usable paths to lower the load to the minimum")
      ->type_name("COUNT")
      ->capture_default_str()
      ->needs(previous);
  command
      ->add_option(
          "--move-bytes", request->budget.bytes,
          "Upper bound on the total bytes of the subflows that --move-budget moves (default: "
          "no limit)")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("BYTES")
      ->check(CLI::NonNegativeNumber)
      ->needs(previous);
  AddReplayExport(*command, request->replay);
  command->add_flag("--json", request->json, "Print one JSON object on standard output");
  command->footer(
      "Examples:\n"
      "  espalier assign --topology fabric.json --flows flows.csv\n"
      "  espalier assign --topology fabric.json --flows flows.csv --previous assignment.json \\\n"
      "    --move-budget 4\n"
      "  espalier assign --topology fabric.json --flows flows.csv --split 2 --shares exact\n"
      "  espalier assign --topology fabric.json --flows flows.csv --export htsim -o flows.cm");
  command->callback([request, &exit_code] {
    if (!request->previous.empty() && request->algorithm != "optimal") {
      throw CLI::ValidationError("--previous", "works only with --algorithm optimal");
    }
    CheckShares(*request);
    exit_code = RunAssign(*request);
  });
}

}  // namespace espalier::cli
