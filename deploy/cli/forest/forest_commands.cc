#include "deploy/cli/forest/forest_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "collective/forest/files/forest_file.h"
#include "collective/forest/in_network/in_network.h"
#include "collective/forest/planner/planner.h"
#include "collective/forest/problem/build_problem.h"
#include "common/files/command_result.h"
#include "common/files/file.h"
#include "common/files/json_writer.h"
#include "common/files/topology_file.h"
#include "deploy/cli/forest/option_files.h"
#include "deploy/cli/forest/schedule_output.h"
#include "deploy/cli/forest/stage_watch.h"

namespace espalier::forest {
namespace {

using fabric::Topology;

// More than two threads gain little, as much of the work is sequential.
int DefaultThreads() {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 2U));
}

struct MakeRequest {
  std::string topology;
  std::string collective = "allgather";
  std::string root;
  std::string ranks;
  std::string weights;
  std::string share;
  std::string previous;
  std::string previous_topology;
  std::int64_t trees_per_root = 0;
  std::int64_t max_trees_per_root = 0;
  std::string format = "json";
  std::string output;
  std::size_t tree = 0;
  int threads = DefaultThreads();
  bool multicast = false;
  bool no_symmetry = false;
  bool prove = false;
  bool json = false;
};

// Reads and parses the file that an option names, if the option was given.
template <typename Parse, typename Target>
Result<void> ReadOption(const std::string& path, Target& target, Parse parse) {
  if (path.empty()) return {};
  const auto text = io::ReadFile(path);
  if (!text) return tl::unexpected<Error>(text.error());
  auto parsed = parse(*text);
  if (!parsed) return Propagate(parsed);
  target = std::move(*parsed);
  return {};
}

Result<ScheduleOptions> ReadOptions(const MakeRequest& request, const Topology& topology) {
  ScheduleOptions options;
  const auto collective = FindCollective(request.collective);
  if (!collective) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("unknown collective \"{}\"", request.collective));
  }
  options.collective = *collective;
  if (!request.root.empty()) {
    options.root = topology.FindNode(request.root);
    if (!options.root) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--root: the topology has no node \"{}\"", request.root));
    }
  }
  ProblemOptions& problem = options.problem;
  auto read = ReadOption(request.ranks, problem.ranks, [&](const std::string& text) {
    return ParseRanks(text, request.ranks, topology);
  });
  if (!read) return Propagate(read);
  read = ReadOption(request.weights, problem.weights, [&](const std::string& text) {
    return ParseWeights(text, request.weights, topology, problem.ranks);
  });
  if (!read) return Propagate(read);
  read = ReadOption(request.share, problem.available, [&](const std::string& text) {
    return ParseShare(text, request.share, topology);
  });
  if (!read) return Propagate(read);
  options.trees_per_weight = request.trees_per_root;
  options.max_trees_per_weight = request.max_trees_per_root;
  options.use_structure = !request.no_symmetry;
  if (request.prove && options.collective != Collective::kAllreduce) {
    return Fail(ErrorCode::kInvalidArgument,
                "--prove works only with --collective allreduce (the bounds of the other "
                "collectives are exact)");
  }
  const std::int64_t pages = ::sysconf(_SC_AVPHYS_PAGES);
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) options.memory_limit_bytes = pages * page;
  return options;
}

// The schedule that --previous names, with the topology that it was made for.
struct Earlier {
  Topology topology;
  TreeSchedule schedule;
};

Result<std::optional<Earlier>> ReadPrevious(const MakeRequest& request, const Topology& topology) {
  if (request.previous.empty()) return std::nullopt;
  Earlier earlier{topology, {}};
  if (!request.previous_topology.empty()) {
    auto read = io::ReadTopologyFile(request.previous_topology);
    if (!read) return Propagate(read);
    earlier.topology = std::move(*read);
  }
  auto schedule = ReadForestFile(request.previous, earlier.topology);
  if (!schedule) return Propagate(schedule);
  earlier.schedule = std::move(*schedule);
  return earlier;
}

// Returns what copies and sums in switches save, after checking the pruned trees. Empty for a
// schedule that does not use them.
Result<std::vector<ClassSaving>> FindSavings(const Topology& topology, const TreeSchedule& schedule,
                                             const Findings& findings) {
  if (!schedule.in_network) return std::vector<ClassSaving>();
  const auto pruned = CountPrunedLoads(topology, schedule);
  if (!pruned) return tl::unexpected<Error>(pruned.error());
  return SavingsByClass(topology, schedule, findings, *pruned);
}

// A schedule, with the findings that the options ask for.
struct MadeForest {
  VerifiedSchedule made;
  std::vector<ClassSaving> savings;  // with --multicast
  std::optional<AllreduceProof> proof;
  StageSeconds seconds;
};

Result<MadeForest> MakeForest(const MakeRequest& request, const Topology& topology,
                              const ScheduleOptions& options, const LinearSolver& solver) {
  StageWatch watch;
  Control control = watch.MakeControl();
  control.threads = request.threads;
  auto made = MakeTreeSchedule(topology, options, control);
  if (!made) return Propagate(made);
  MadeForest forest{std::move(*made), {}, std::nullopt, {}};
  if (request.multicast) {
    forest.made.schedule.in_network = true;
    auto savings = FindSavings(topology, forest.made.schedule, forest.made.findings);
    if (!savings) return Propagate(savings);
    forest.savings = std::move(*savings);
  }
  if (request.prove) {
    auto proof = ProveAllreduce(topology, options.problem, forest.made.schedule, solver, control);
    if (!proof) return Propagate(proof);
    forest.proof = *proof;
  }
  forest.seconds = watch.Finish();
  return forest;
}

int Make(const MakeRequest& request, const LinearSolver& solver) {
  if (request.format == "binary" && request.output.empty() && ::isatty(STDOUT_FILENO) == 1) {
    return io::ReportError(
        {ErrorCode::kInvalidArgument,
         "--format binary: standard output is a terminal (write to a file with -o FILE)"});
  }
  const auto topology = io::ReadTopologyFile(request.topology);
  if (!topology) return io::ReportError({ErrorCode::kInvalidArgument, topology.error().message});
  auto options = ReadOptions(request, *topology);
  if (!options) return io::ReportError({ErrorCode::kInvalidArgument, options.error().message});
  const auto previous = ReadPrevious(request, *topology);
  if (!previous) return io::ReportError({ErrorCode::kInvalidArgument, previous.error().message});
  std::optional<Reuse> reuse;
  if (*previous)
    options->previous = PreviousSchedule{&(*previous)->schedule, &(*previous)->topology};

  const auto forest = MakeForest(request, *topology, *options, solver);
  if (!forest) {
    const auto& [code, message] = forest.error();
    const bool interrupted = code == ErrorCode::kUnavailable;
    return io::ReportError({code, interrupted ? "interrupted" : request.topology + ": " + message});
  }
  const auto& [made, savings, proof, seconds] = *forest;
  if (proof) fmt::print(stderr, "{}\n", DescribeProof(*proof, made.schedule));
  if (*previous) reuse = made.reuse;
  // With --format json, the forest itself is the one JSON object.
  if (request.json && request.output.empty() && request.format != "json") {
    return io::WriteOutput(
        FormatFigures(made.schedule, made.findings, savings, &seconds, proof, reuse), "");
  }
  auto text = FormatSchedule(*topology, made.schedule, made.findings, savings, seconds,
                             request.format, request.tree, proof);
  if (!text) return io::ReportError(text.error());
  if (request.format == "json") *text += "\n";
  if (request.format == "summary" && reuse) *text += DescribeReuse(*reuse);
  const int code = io::WriteOutput(*text, request.output);
  if (code != 0 || !request.json || request.output.empty()) return code;
  return io::WriteOutput(
      FormatFigures(made.schedule, made.findings, savings, &seconds, proof, reuse), "");
}

struct ReadRequest {
  std::string topology;
  std::string forest;
  std::string share;
  std::string format = "summary";
  std::string output;
  std::size_t tree = 0;
  int threads = DefaultThreads();
  bool json = false;
};

// The contents of the files that `verify` and `show` read.
struct Subject {
  Topology topology;
  TreeSchedule schedule;
  std::vector<BitsPerSecond> available;
};

// Errors: always kInvalidArgument.
Result<Subject> ReadSubject(const ReadRequest& request) {
  const auto bad_input = [](const Error& error) {
    return Fail(ErrorCode::kInvalidArgument, error.message);
  };
  auto topology = io::ReadTopologyFile(request.topology);
  if (!topology) return bad_input(topology.error());
  auto schedule = ReadForestFile(request.forest, *topology);
  if (!schedule) return bad_input(schedule.error());
  Subject subject{std::move(*topology), std::move(*schedule), {}};
  const auto read = ReadOption(request.share, subject.available, [&](const std::string& text) {
    return ParseShare(text, request.share, subject.topology);
  });
  if (!read) return bad_input(read.error());
  return subject;
}

// The verifier's findings on a sound forest, with what copies in switches save.
struct Checked {
  Findings findings;
  std::vector<ClassSaving> savings;
};

Result<Checked> Check(const Subject& subject, int threads) {
  auto findings = VerifySchedule(subject.topology, subject.schedule, subject.available, threads);
  if (!findings) return Propagate(findings);
  auto savings = FindSavings(subject.topology, subject.schedule, *findings);
  if (!savings) return Propagate(savings);
  return Checked{std::move(*findings), std::move(*savings)};
}

int Verify(const ReadRequest& request) {
  const auto subject = ReadSubject(request);
  if (!subject) return io::ReportError(subject.error());
  const TreeSchedule* schedule = &subject->schedule;
  const auto checked = Check(*subject, request.threads);
  if (!checked) {
    if (request.json) {
      io::JsonWriter writer;
      writer.BeginObject().Key("sound").Bool(false).Key("violation");
      writer.String(checked.error().message).EndObject();
      io::WriteOutput(writer.Text() + "\n", "");
      fmt::print(stderr, "espalier: {}: {}\n", request.forest, checked.error().message);
      return io::kExitFailed;
    }
    return io::ReportError({checked.error().code, request.forest + ": " + checked.error().message});
  }
  const Findings* findings = &checked->findings;
  if (request.json) {
    io::JsonWriter writer;
    writer.BeginObject().Key("sound").Bool(true);
    writer.Key("compute_nodes").Integer(static_cast<std::int64_t>(schedule->ranks.size()));
    writer.Key("inverse_rate").String(schedule->inverse_rate.ToString());
    writer.Key("fraction_of_bound").String(schedule->FractionOfBound().ToString());
    writer.Key("height_max").Integer(findings->heights.max);
    writer.Key("height_mean").Double(findings->heights.mean);
    writer.Key("edges").Integer(findings->edges).EndObject();
    return io::WriteOutput(writer.Text() + "\n", "");
  }
  fmt::print("{}: the forest is sound: {} ranks, {:.4g} % of the bound, height {}\n",
             request.forest, schedule->ranks.size(), 100 * schedule->FractionOfBound().ToDouble(),
             findings->heights.max);
  return 0;
}

int Show(const ReadRequest& request) {
  const auto subject = ReadSubject(request);
  if (!subject) return io::ReportError(subject.error());
  // The formatters rely on a sound forest.
  const auto checked = Check(*subject, request.threads);
  if (!checked) {
    return io::ReportError({checked.error().code, request.forest + ": " + checked.error().message});
  }
  const TreeSchedule& schedule = subject->schedule;
  const auto& [findings, savings] = *checked;
  if (request.json) {
    return io::WriteOutput(FormatFigures(schedule, findings, savings, nullptr), request.output);
  }
  const auto text = FormatSchedule(subject->topology, schedule, findings, savings, {},
                                   request.format, request.tree);
  if (!text) return io::ReportError(text.error());
  return io::WriteOutput(*text, request.output);
}

void AddFormat(CLI::App& command, std::string& format, std::string& output, std::size_t& tree) {
  command
      .add_option("--format", format,
                  "Format of the output; json is for small forests, dot draws one tree, program is "
                  "the JSON of a collective program")
      ->check(CLI::IsMember(
          {"json", "binary", "summary", "dot", "program", "msccl-xml", "mscclpp-json"}))
      ->capture_default_str();
  command.add_option("--tree", tree, "Number of the class of trees that dot draws")
      ->type_name("CLASS")
      ->capture_default_str();
  command.add_option("-o,--output", output, "File to write (default: standard output)");
}

void AddThreads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "Number of threads, which does not change the result")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
}

void AddMakeOptions(CLI::App& command, MakeRequest& request) {
  command.add_option("--topology", request.topology, "Topology file (required)");
  command.add_option("--collective", request.collective, "Collective that the forest carries")
      ->check(CLI::IsMember({"allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"}))
      ->capture_default_str();
  command
      .add_option("--root", request.root,
                  "Compute node that is the root of broadcast or reduce (required for these)")
      ->type_name("NODE");
  command.add_option("--ranks", request.ranks,
                     "JSON file with an array of the compute nodes that take part (default: all)");
  CLI::Option* fixed =
      command
          .add_option("--trees-per-root", request.trees_per_root, "Number of trees of each root")
          ->type_name("COUNT")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 62));
  command
      .add_option("--max-trees-per-root", request.max_trees_per_root,
                  "Upper bound on the number of trees of each root (default: no limit)")
      ->type_name("COUNT")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 62))
      ->excludes(fixed);
  command.add_option("--weights", request.weights,
                     "JSON file with the shard size of each compute node: {\"h0\": 2, \"h1\": 1} "
                     "(default: equal)");
  command.add_option(
      "--share", request.share,
      "JSON file with the residual capacity of links, in Gbit/s: {\"h0--leaf0\": 40} "
      "(default: their bandwidth)");
  CLI::Option* previous =
      command.add_option("--previous", request.previous,
                         "Previous forest file, whose trees are reused where throughput allows");
  command
      .add_option("--previous-topology", request.previous_topology,
                  "Topology file that the previous forest was made for (default: --topology)")
      ->needs(previous);
  command.add_flag("--multicast", request.multicast,
                   "Use the switches that can copy data or add it up (in-network aggregation)");
  command.add_flag("--no-symmetry", request.no_symmetry,
                   "Use the general construction, without a search for a known structure");
  command.add_flag("--prove", request.prove,
                   "Compute whether any allreduce could be faster (may need cbc of Debian's "
                   "coinor-cbc)");
  AddThreads(command, request.threads);
  AddFormat(command, request.format, request.output, request.tree);
  command.add_flag("--json", request.json,
                   "Print one JSON object on standard output: the forest, or its figures if the "
                   "forest is written to a file or has another format");
}

template <typename Run>
void AddReader(CLI::App& group, const std::string& name, const std::string& what, bool formats,
               int& exit_code, Run run) {
  auto request = std::make_shared<ReadRequest>();
  CLI::App* command = group.add_subcommand(name, what);
  command->add_option("--topology", request->topology, "Topology file")->required();
  command->add_option("FOREST", request->forest, "Forest file, JSON or binary")->required();
  command->add_option(
      "--share", request->share,
      "JSON file with the residual capacity of links that the forest was made with");
  AddThreads(*command, request->threads);
  if (formats) AddFormat(*command, request->format, request->output, request->tree);
  command->add_flag("--json", request->json, "Print one JSON object instead of text");
  command->callback([request, run, &exit_code] { exit_code = run(*request); });
}

}  // namespace

void AddForestCommands(CLI::App& app, int& exit_code, LinearSolver solver) {
  auto request = std::make_shared<MakeRequest>();
  CLI::App* group =
      app.add_subcommand("forest", "Make throughput-optimal trees for a collective on a topology");
  group->require_subcommand(0, 1);
  AddMakeOptions(*group, *request);
  AddReader(*group, "verify", "Check a forest against its topology", false, exit_code, Verify);
  AddReader(*group, "show", "Print a forest in any format", true, exit_code, Show);
  // After the subcommands, as they would take it over.
  group->footer(
      "Examples:\n"
      "  espalier forest --topology fabric.json --collective allreduce -o forest.json\n"
      "  espalier forest --topology fabric.json --format summary");
  group->callback([group, request, &exit_code, solver = std::move(solver)] {
    if (!group->get_subcommands().empty()) return;
    if (request->topology.empty()) throw CLI::RequiredError("--topology");
    exit_code = Make(*request, solver);
  });
}

}  // namespace espalier::forest
