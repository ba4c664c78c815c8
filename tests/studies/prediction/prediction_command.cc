#include "tests/studies/prediction/prediction_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "common/files/command_result.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/interrupt.h"
#include "common/terminal/progress.h"
#include "common/terminal/table.h"
#include "controller/offline/evaluation/paper_evaluation.h"
#include "controller/offline/files/job_file.h"
#include "tests/studies/prediction/replay.h"

namespace espalier::offline {
namespace {

using cli::Interrupt;
using cli::MakeRow;
using cli::PrintTable;
using cli::Progress;
using fabric::Topology;

struct Request {
  std::string jobs;
  std::string only;
  int iterations = 24;
  std::uint64_t seeds = 3;
  bool json = false;
};

struct Scenario {
  std::string name;
  int jobs = 1;  // number of generated jobs, if `folder` is empty
  Disturbance disturbance;
  int spines = 16;
  std::string folder = {};  // of jobs of floodns, on the fabric of the paper

  // Multiplies the seeds: with few spines, chance decides which flows share links.
  std::uint64_t seeds_factor() const { return spines < 16 ? 10 : 1; }
};

struct Row {
  std::string name;
  std::uint64_t seeds = 0;
  ReplayOutcome with;
  ReplayOutcome without;

  double ratio() const { return with.allreduce_seconds / without.allreduce_seconds; }
};

std::vector<Scenario> ListScenarios(const Request& request) {
  std::vector<Scenario> scenarios;
  for (const int jobs : {1, 4, 16}) {
    for (const double jitter : {0.0, 0.05, 0.2}) {
      scenarios.push_back(
          {fmt::format("jobs {}, jitter {:.0f} %", jobs, 100 * jitter), jobs, {.jitter = jitter}});
    }
  }
  scenarios.push_back({"jobs 4, drift 1 %", 4, {.jitter = 0.05, .drift = 0.01}});
  scenarios.push_back({"jobs 4, stragglers 5 %", 4, {.jitter = 0.05, .stragglers = 0.05}});
  scenarios.push_back({"jobs 4, phase change", 4, {.jitter = 0.05, .changes_phase = true}});
  scenarios.push_back({"jobs 16, jitter 5 %, half the spines", 16, {.jitter = 0.05}, 8});
  scenarios.push_back({"jobs 16, jitter 20 %, half the spines", 16, {.jitter = 0.2}, 8});
  if (request.jobs.empty()) return scenarios;
  for (const PaperScenario& paper : FindPaperScenarios(request.jobs)) {
    for (const double jitter : {0.0, 0.05}) {
      Scenario scenario{fmt::format("floodns {} x ring {}, jitter {:.0f} %", paper.concurrent_jobs,
                                    paper.ring_size, 100 * jitter)};
      scenario.disturbance.jitter = jitter;
      scenario.folder = paper.folder;
      scenarios.push_back(std::move(scenario));
    }
  }
  return scenarios;
}

Result<Topology> BuildFabric(int spines) {
  auto spec = fabric::BuildLeafSpine({.spines = spines, .leaves = 16, .hosts_per_leaf = 16});
  if (!spec) return Propagate(spec);
  auto topology = Topology::Build(std::move(*spec));
  if (!topology) return tl::unexpected<Error>(topology.error().error);
  return std::move(*topology);
}

// Generates jobs, each with 16 hosts of its own in rings of 4. An iteration has 0.6 s of
// computation and two collectives, each of which takes 0.2 s if no link is shared.
std::vector<Job> GenerateJobs(const Topology& topology, int count, std::uint64_t seed) {
  std::vector<fabric::NodeId> hosts;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const fabric::NodeId id(static_cast<std::int32_t>(i));
    if (topology.node(id).kind == fabric::NodeKind::kCompute) hosts.push_back(id);
  }
  std::mt19937_64 random(seed);
  for (std::size_t i = hosts.size(); i-- > 1;) std::swap(hosts[i], hosts[random() % (i + 1)]);
  std::vector<Job> jobs;
  std::size_t next = 0;
  for (int j = 0; j < count; ++j) {
    Job& job = jobs.emplace_back();
    job.id = fmt::format("job{}", j);
    Phase& phase = job.phases.emplace_back();
    phase.compute_ns = 600'000'000;
    for (int r = 0; r < 4; ++r) {
      const auto first = hosts.begin() + static_cast<std::ptrdiff_t>(next);
      phase.exchanges.push_back(MakeRing({first, first + 4}, 1'666'666'668));
      next += 4;
    }
  }
  return jobs;
}

// Adds the outcome of one more seed: sums the figures and appends the errors.
void Add(const ReplayOutcome& more, ReplayOutcome& all) {
  all.starts += more.starts;
  all.planned += more.planned;
  all.checks += more.checks;
  all.checked_planned += more.checked_planned;
  all.least_load += more.least_load;
  all.as_good += more.as_good;
  for (const double seconds : more.start_error_seconds) all.start_error_seconds.push_back(seconds);
  for (const double seconds : more.end_error_seconds) all.end_error_seconds.push_back(seconds);
  all.allreduce_seconds += more.allreduce_seconds;
}

Result<Row> Run(const Scenario& scenario, std::uint64_t seed, const Request& request,
                const std::function<bool()>& is_cancelled) {
  const bool is_generated = scenario.folder.empty();
  auto topology = is_generated ? BuildFabric(scenario.spines) : BuildPaperFabric();
  if (!topology) return Propagate(topology);
  std::vector<Job> jobs;
  if (is_generated) {
    jobs = GenerateJobs(*topology, scenario.jobs, seed);
  } else {
    auto read = ReadJobs(scenario.folder, *topology);
    if (!read) return Propagate(read);
    jobs = std::move(*read);
  }
  ReplayOptions options{.disturbance = scenario.disturbance,
                        .iterations = request.iterations,
                        .later_collective_ns = is_generated ? 100'000'000 : 0,
                        .seed = seed,
                        .is_cancelled = is_cancelled};
  auto with = Replay(*topology, jobs, options);
  if (!with) return Propagate(with);
  options.plan_ahead = false;
  auto without = Replay(*topology, std::move(jobs), options);
  if (!without) return Propagate(without);
  return Row{scenario.name, 1, std::move(*with), std::move(*without)};
}

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

double Share(std::int64_t part, std::int64_t of) {
  return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of);
}

void WriteErrors(io::JsonWriter& json, std::string_view name, const std::vector<double>& seconds) {
  json.Key(name).BeginObject();
  json.Key("count").Integer(static_cast<std::int64_t>(seconds.size()));
  json.Key("median").Double(Quantile(seconds, 0.5));
  json.Key("p99").Double(Quantile(seconds, 0.99)).EndObject();
}

std::string Format(const std::vector<Row>& rows) {
  io::JsonWriter json;
  json.BeginObject().Key("scenarios").BeginArray();
  for (const Row& row : rows) {
    json.BeginObject().Key("scenario").String(row.name);
    json.Key("starts").Integer(row.with.starts);
    json.Key("seeds").Integer(row.seeds);
    json.Key("planned").Integer(row.with.planned);
    json.Key("checks").Integer(row.with.checks);
    json.Key("checked_planned").Integer(row.with.checked_planned);
    json.Key("planned_least_load").Integer(row.with.least_load);
    json.Key("planned_as_good").Integer(row.with.as_good);
    json.Key("checks_without").Integer(row.without.checks);
    json.Key("least_load_without").Integer(row.without.least_load);
    json.Key("as_good_without").Integer(row.without.as_good);
    WriteErrors(json, "start_error_seconds", row.with.start_error_seconds);
    WriteErrors(json, "end_error_seconds", row.with.end_error_seconds);
    const auto seeds = static_cast<double>(row.seeds);
    json.Key("allreduce_seconds").Double(row.with.allreduce_seconds / seeds);
    json.Key("allreduce_seconds_without").Double(row.without.allreduce_seconds / seeds);
    json.Key("allreduce_ratio").Double(row.ratio()).EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

io::JsonValue MakeRow(const Row& row) {
  io::JsonValue object;
  object.kind = io::JsonValue::Kind::kObject;
  const auto add = [&](const char* key, std::string text) {
    io::JsonValue value;
    value.kind = io::JsonValue::Kind::kString;
    value.text = std::move(text);
    object.members.emplace_back(key, std::move(value));
  };
  const auto percent = [](double share) { return fmt::format("{:.2f}", 100 * share); };
  const auto errors = [](const std::vector<double>& seconds) {
    return fmt::format("{:.1f} / {:.1f}", 1e3 * Quantile(seconds, 0.5),
                       1e3 * Quantile(seconds, 0.99));
  };
  add("scenario", row.name);
  add("starts", fmt::format("{}", row.with.starts));
  add("planned", percent(Share(row.with.planned, row.with.starts)));
  add("load", percent(Share(row.with.least_load, row.with.checks)));
  add("good", percent(Share(row.with.as_good, row.with.checks)));
  add("without", percent(Share(row.without.as_good, row.without.checks)));
  add("start", errors(row.with.start_error_seconds));
  add("end", errors(row.with.end_error_seconds));
  add("ratio", fmt::format("{:.4f}", row.ratio()));
  return object;
}

void Print(const std::vector<Row>& rows) {
  std::vector<io::JsonValue> objects;
  for (const Row& row : rows) objects.push_back(MakeRow(row));
  PrintTable({{"SCENARIO", "scenario"},
              {"STARTS", "starts"},
              {"PLANNED_%", "planned"},
              {"LEAST_LOAD_%", "load"},
              {"AS_GOOD_%", "good"},
              {"WITHOUT_%", "without"},
              {"START_ERROR_MS", "start"},
              {"END_ERROR_MS", "end"},
              {"ALLREDUCE_RATIO", "ratio"}},
             objects);
}

Result<Row> RunSeeds(const Scenario& scenario, const Request& request,
                     const std::function<bool()>& is_cancelled) {
  Row all{.name = scenario.name,
          .seeds = request.seeds * scenario.seeds_factor(),
          .with = {},
          .without = {}};
  for (std::uint64_t seed = 1; seed <= all.seeds; ++seed) {
    const auto row = Run(scenario, seed, request, is_cancelled);
    if (!row) return tl::unexpected<Error>(row.error());
    Add(row->with, all.with);
    Add(row->without, all.without);
  }
  return all;
}

int RunPrediction(const Request& request) {
  std::vector<Scenario> scenarios = ListScenarios(request);
  const bool lacks_jobs = !request.jobs.empty() && FindPaperScenarios(request.jobs).empty();
  std::erase_if(scenarios, [&](const Scenario& scenario) {
    return scenario.name.find(request.only) == std::string::npos;
  });
  if (lacks_jobs || scenarios.empty()) {
    return io::ReportError(
        {ErrorCode::kInvalidArgument,
         lacks_jobs
             ? fmt::format("--jobs: {} has no folder concurrent_jobs_J/ring_size_R", request.jobs)
             : fmt::format("--only: no scenario has \"{}\" in its name", request.only)});
  }
  const Interrupt interrupt;
  std::vector<Row> rows;
  {
    Progress progress("prediction", static_cast<int>(scenarios.size()));
    for (const Scenario& scenario : scenarios) {
      progress.Next(scenario.name);
      auto row = RunSeeds(scenario, request, [&interrupt] { return interrupt.IsRequested(); });
      if (!row) return io::ReportError(row.error());
      rows.push_back(std::move(*row));
    }
  }
  if (request.json) {
    fmt::print("{}\n", Format(rows));
  } else {
    Print(rows);
  }
  return 0;
}

}  // namespace

void AddPredictionOptions(CLI::App& command, int& exit_code) {
  auto request = std::make_shared<Request>();
  command.add_option("--jobs", request->jobs,
                     "Folder of more jobs: concurrent_jobs_J/ring_size_R/job_N-MODEL.txt");
  command
      .add_option("--iterations", request->iterations,
                  "Iterations of each job; the first 3 are warm-up")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(4, 1'000));
  command
      .add_option("--seeds", request->seeds,
                  "Number of random seeds, whose runs make one row; scenarios with half the "
                  "spines are run with ten times as many")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000}));
  command.add_option("--only", request->only, "Run only the scenarios with this text in the name");
  command.add_flag("--json", request->json, "Print one JSON object on standard output");
  command.callback([request, &exit_code] { exit_code = RunPrediction(*request); });
}

}  // namespace espalier::offline
