#include "deploy/cli/planning/simulate_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/files/command_result.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/files/topology_file.h"
#include "common/terminal/interrupt.h"
#include "common/terminal/progress.h"
#include "common/terminal/table.h"
#include "controller/offline/evaluation/paper_evaluation.h"
#include "controller/offline/evaluation/phase_gain.h"
#include "controller/offline/evaluation/run_json.h"
#include "controller/offline/evaluation/schemes.h"
#include "controller/offline/evaluation/solver.h"
#include "controller/offline/files/job_file.h"
#include "controller/offline/simulation/model_jobs.h"
#include "deploy/cli/planning/cluster_commands.h"
#include "deploy/cli/planning/replay_export.h"

namespace espalier::cli {
namespace {

using offline::Algorithm;
using offline::AlgorithmName;
using offline::DrawFigures;
using offline::EvaluatePaper;
using offline::FailLastSpines;
using offline::JobOutcome;
using offline::PaperRequest;
using offline::ParseAlgorithms;
using offline::PortsChangedPerEpoch;
using offline::RunDetail;
using offline::Scheme;
using offline::SchemeRun;
using offline::SchemeRunner;
using offline::SolveWithCbc;
using offline::TypicalMicroseconds;
using offline::Workload;
using offline::WriteRun;

constexpr std::uint64_t kMaxSeeds = 1000;

struct Request {
  std::string topology;
  std::string jobs;
  std::vector<std::string> workload;
  offline::ModelJobOptions layout;  // of the workload
  std::string algorithms = "optimal";
  int failed_spines = 0;
  std::uint32_t split = 1;
  std::uint64_t seeds = 1;
  std::string live_flows = "open";
  ReplayExport replay;
  bool json = false;
};

std::vector<Scheme> ListSchemes(const std::vector<Algorithm>& algorithms, const Request& request) {
  std::vector<Scheme> schemes;
  for (const Algorithm algorithm : algorithms) {
    const std::uint64_t seeds = algorithm == Algorithm::kEcmp ? request.seeds : 1;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      schemes.push_back({algorithm, request.split, seed});
    }
  }
  return schemes;
}

std::string FormatRuns(const Workload& workload, const Request& request,
                       const std::vector<SchemeRun>& runs) {
  io::JsonWriter json;
  json.BeginObject().Key("topology").String(request.topology);
  json.Key("failed_spines").Integer(request.failed_spines);
  json.Key("runs").BeginArray();
  for (const SchemeRun& run : runs) WriteRun(json, run, workload.jobs(), RunDetail::kAll);
  json.EndArray();
  if (const auto gain = offline::ComparePhases(runs, workload.jobs())) {
    json.Key("phases_against_connections").BeginObject().Key("jobs").BeginArray();
    for (std::size_t j = 0; j < gain->factors.size(); ++j) {
      json.BeginObject().Key("job").String(workload.jobs()[j].id);
      json.Key("times_as_fast").Double(gain->factors[j]).EndObject();
    }
    json.EndArray().Key("text").String(gain->text).EndObject();
  }
  json.EndObject();
  return json.Text();
}

// "3 (bound 2)"; "-" for what takes no paths.
std::string OverlapText(const SchemeRun& run) {
  if (run.scheme.algorithm == Algorithm::kIdeal) return "-";
  return fmt::format("{} (bound {})", run.overlap.load.ToString(),
                     run.overlap.lower_bound.ToString());
}

// Four decimal places, or as many as four digits take.
std::string SecondsText(double seconds) {
  return seconds == 0 || seconds >= 0.01 ? fmt::format("{:.4f}", seconds)
                                         : fmt::format("{:.4g}", seconds);
}

io::JsonValue MakeJobRow(const std::string& scheme, const SchemeRun& run, const offline::Job& job,
                         const JobOutcome& outcome) {
  return MakeRow({{"scheme", scheme},
                  {"split", fmt::format("{}", run.scheme.split)},
                  {"job", job.id},
                  {"model", job.model},
                  {"allreduce", SecondsText(outcome.allreduce_seconds)},
                  {"completion", SecondsText(outcome.mean_completion_seconds)},
                  {"gbps", fmt::format("{:.2f}", outcome.mean_throughput_gbps)},
                  {"slowest", fmt::format("{:.2f}", outcome.slowest_flow_gbps)},
                  {"ports", fmt::format("{:.1f}", PortsChangedPerEpoch(outcome))},
                  {"load", run.scheme.algorithm == Algorithm::kIdeal
                               ? "-"
                               : fmt::format("{:.4g}", run.outcome.max_link_load)},
                  {"overlap", OverlapText(run)},
                  {"assignments", fmt::format("{}", run.outcome.assignments)},
                  {"time", fmt::format("{:.1f}", TypicalMicroseconds(run.assignment_seconds))}});
}

// Adds three rows for each job: of the runs of one algorithm with several seeds, those with the
// least, the median and the greatest all-reduce time of the job.
void AddSeedRows(const Workload& workload, std::vector<const SchemeRun*> runs,
                 std::vector<io::JsonValue>& rows) {
  const std::string name(AlgorithmName(runs.front()->scheme.algorithm));
  for (std::size_t j = 0; j < workload.jobs().size(); ++j) {
    std::ranges::sort(runs, {},
                      [j](const SchemeRun* run) { return run->outcome.jobs[j].allreduce_seconds; });
    const std::pair<const char*, const SchemeRun*> picks[] = {
        {" least", runs.front()},
        {" median", runs[(runs.size() - 1) / 2]},
        {" greatest", runs.back()},
    };
    for (const auto& [which, run] : picks) {
      rows.push_back(MakeJobRow(name + which, *run, workload.jobs()[j], run->outcome.jobs[j]));
    }
  }
}

void PrintRuns(const Workload& workload, const std::vector<SchemeRun>& runs) {
  std::vector<io::JsonValue> rows;
  for (std::size_t i = 0; i < runs.size();) {
    std::vector<const SchemeRun*> same;
    for (; i < runs.size() && (same.empty() || runs[i].scheme.seed > 0); ++i) {
      same.push_back(&runs[i]);
    }
    if (same.size() > 1) {
      AddSeedRows(workload, same, rows);
      continue;
    }
    const std::string name(AlgorithmName(same[0]->scheme.algorithm));
    for (std::size_t j = 0; j < workload.jobs().size(); ++j) {
      rows.push_back(MakeJobRow(name, *same[0], workload.jobs()[j], same[0]->outcome.jobs[j]));
    }
  }
  PrintTable({{"ALGORITHM", "scheme"},
              {"SPLIT", "split"},
              {"JOB", "job"},
              {"MODEL", "model"},
              {"ALLREDUCE_S", "allreduce"},
              {"FLOW_COMPLETION_S", "completion"},
              {"FLOW_GBPS", "gbps"},
              {"SLOWEST_GBPS", "slowest"},
              {"PORTS_CHANGED", "ports"},
              {"MAX_LOAD", "load"},
              {"WORST_OVERLAP", "overlap"},
              {"ASSIGNMENTS", "assignments"},
              {"US_EACH", "time"}},
             rows);
  const auto gain = offline::ComparePhases(runs, workload.jobs());
  if (gain) fmt::print("\n{}\n", gain->text);
}

Result<void> CheckExport(const Request& request, const std::vector<Scheme>& schemes) {
  if (!request.replay.IsWanted() || schemes.size() == 1) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("--export writes the paths of one algorithm, and there are {} (give one "
                          "with --algorithm, and one seed)",
                          schemes.size()));
}

int RunSimulate(const Request& request) {
  const auto algorithms = ParseAlgorithms(request.algorithms);
  if (!algorithms) return io::ReportError(algorithms.error());
  auto topology = io::ReadTopologyFile(request.topology);
  if (!topology) return io::ReportError(topology.error());
  if (auto failed = FailLastSpines(*topology, request.failed_spines); !failed) {
    return io::ReportError(failed.error());
  }
  auto jobs = request.workload.empty()
                  ? offline::ReadJobs(request.jobs, *topology)
                  : offline::MakeModelJobs(*topology, request.workload, request.layout);
  if (!jobs) return io::ReportError(jobs.error());
  const auto workload = Workload::Build(*topology, std::move(*jobs));
  if (!workload) return io::ReportError(workload.error());

  const Interrupt interrupt;
  offline::SimulationOptions options;
  options.is_cancelled = [&interrupt] { return interrupt.IsRequested(); };
  if (request.live_flows == "unfinished") options.live_flows = offline::LiveFlows::kUnfinished;
  SchemeRunner runner(*topology, *workload, SolveWithCbc);
  const std::vector<Scheme> schemes = ListSchemes(*algorithms, request);
  if (auto checked = CheckExport(request, schemes); !checked) {
    return io::ReportError(checked.error());
  }
  offline::ReplayRecorder recorder(*workload);
  if (request.replay.IsWanted()) {
    options.on_sending = [&recorder](const auto& sending) { recorder.Record(sending); };
  }
  std::vector<SchemeRun> runs;
  {
    Progress progress("simulation", static_cast<int>(schemes.size()));
    for (const Scheme& scheme : schemes) {
      progress.Next(AlgorithmName(scheme.algorithm));
      auto run = runner.Run(scheme, options);
      if (!run) return io::ReportError(run.error());
      runs.push_back(std::move(*run));
    }
  }
  if (request.replay.IsWanted()) {
    const auto flows = recorder.Take();
    if (!flows) return io::ReportError(flows.error());
    if (auto written = WriteReplay(request.replay, *flows, *topology); !written) {
      return io::ReportError(written.error());
    }
  }
  if (request.json) {
    fmt::print("{}\n", FormatRuns(*workload, request, runs));
  } else {
    PrintRuns(*workload, runs);
  }
  return 0;
}

// Adds the options of jobs that need no file.
void AddWorkload(CLI::App& command, Request& request, CLI::Option& jobs) {
  offline::ModelJobOptions& layout = request.layout;
  command
      .add_option("--workload", request.workload,
                  fmt::format("Jobs to make instead of reading them, separated by commas: {}",
                              offline::kModelJobNames))
      ->type_name("JOBS")
      ->delimiter(',')
      ->excludes(&jobs);
  const std::tuple<const char*, int*, const char*> counts[] = {
      {"--data-parallel", &layout.data_parallel, "Number of copies of a model of --workload"},
      {"--ranks", &layout.ranks, "Number of NICs of a job of --workload that is no model"},
      {"--nics-per-host", &layout.nics_per_host,
       "Number of NICs of a host, between which --workload sends nothing over the fabric"},
      {"--epochs", &layout.epochs, "Number of iterations of a job of --workload"},
  };
  for (const auto& [name, value, help] : counts) {
    command.add_option(name, *value, help)
        ->type_name("COUNT")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
  }
  command
      .add_option("--seed", layout.seed,
                  "Seed of the hosts and starts of jobs of --workload, which begin within 10 "
                  "seconds")
      ->capture_default_str();
}

void AddPaper(CLI::App& group, int& exit_code) {
  auto request = std::make_shared<PaperRequest>();
  CLI::App* command = group.add_subcommand(
      "paper",
      "Repeat the evaluation of \"Routing for Large ML Models\": quality table, figures 4 to 8");
  command
      ->add_option("--jobs", request->jobs,
                   "Folder with concurrent_jobs_J/ring_size_R/job_N-MODEL.txt")
      ->required();
  command
      ->add_option("-o,--output", request->output,
                   "Folder to write evaluation.md, evaluation.json and the figures (SVG) to")
      ->required();
  command->add_option("--seeds", request->seeds, "Number of random seeds that ecmp is run with")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{1}, kMaxSeeds));
  command
      ->add_option("--concurrent-jobs", request->most_jobs,
                   "Upper bound on the concurrent jobs of a scenario: those of more jobs than the "
                   "folder has are drawn at random")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(0, 5));
  command->add_option("--seed", request->seed, "Seed of the jobs that are drawn")
      ->type_name("SEED")
      ->capture_default_str();
  command->add_flag("--ilp", request->with_ilp,
                    "Run the integer program for the jobs of the folder, too (slow; needs cbc of "
                    "Debian's coinor-cbc)");
  command->add_flag("--json", request->json, "Print one JSON object on standard output");
  command->callback([request, &exit_code] {
    const Interrupt interrupt;
    const auto done = EvaluatePaper(*request, [&interrupt] { return interrupt.IsRequested(); });
    exit_code = done ? 0 : io::ReportError(done.error());
    if (!done) return;
    // The results are written: figures that cannot be drawn are no failure.
    const auto drawn = DrawFigures(request->output);
    if (!drawn) fmt::print(stderr, "espalier: {}\n", drawn.error().message);
  });
}

}  // namespace

void AddSimulateCommands(CLI::App& app, int& exit_code) {
  auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand(
      "simulate",
      "Simulate training jobs on a fabric, flow by flow, under algorithms of path assignment");
  CLI::Option* topology =
      command->add_option("--topology", request->topology, "Topology file (required)");
  CLI::Option* jobs = command->add_option(
      "--jobs", request->jobs,
      "Job file (JSON, or a .txt of the simulator floodns) or folder of job files (this or "
      "--workload is required)");
  AddWorkload(*command, *request, *jobs);
  command
      ->add_option(
          "--algorithm", request->algorithms,
          "Algorithms, separated by commas: greedy, optimal, annealing, ilp and ecmp "
          "assign every phase by itself; connections and phases assign a job's connections "
          "once, for all at once or for its phases; ideal has no contention; or all, "
          "which leaves ilp out")
      ->type_name("NAMES")
      ->capture_default_str();
  command
      ->add_option("--failed-spines", request->failed_spines,
                   "Number of spines, counted from the last one, that are out of service")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--split", request->split, "Number of subflows that each flow is split into")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(1U, controller::kMaxSubflows));
  command->add_option("--seeds", request->seeds, "Number of random seeds that ecmp is run with")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{1}, kMaxSeeds));
  command
      ->add_option("--live-flows", request->live_flows,
                   "Flows that are assigned paths: open (connections between two rounds, too) or "
                   "unfinished (only while they have bytes to send)")
      ->capture_default_str()
      ->check(CLI::IsMember({"open", "unfinished"}));
  AddReplayExport(*command, request->replay);
  command->add_flag("--json", request->json, "Print one JSON object on standard output");
  command->require_subcommand(0, 1);
  AddPaper(*command, exit_code);
  AddClusterSimulation(*command, exit_code);
  // After the subcommands, as they would take it over.
  command->footer(
      "Examples:\n"
      "  espalier simulate --topology fabric.json --jobs jobs.json --algorithm optimal,ecmp\n"
      "  espalier simulate --topology fabric.json --workload bloom,gpt3 --algorithm "
      "ecmp,connections,phases,optimal\n"
      "  espalier simulate --topology fabric.json --workload bloom --algorithm optimal --export "
      "ns3 -o "
      "flows.csv");
  command->callback([request, command, topology, jobs, &exit_code] {
    if (!command->get_subcommands().empty()) return;
    if (topology->empty()) throw CLI::RequiredError(topology->get_name());
    if (jobs->empty() && request->workload.empty()) throw CLI::RequiredError(jobs->get_name());
    exit_code = RunSimulate(*request);
  });
}

}  // namespace espalier::cli
