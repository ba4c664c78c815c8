#include "controller/offline/evaluation/paper_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "common/files/file.h"
#include "common/os/command.h"
#include "common/terminal/progress.h"
#include "controller/offline/evaluation/drawn_jobs.h"
#include "controller/offline/evaluation/paper_results.h"
#include "controller/offline/evaluation/solver.h"
#include "controller/offline/files/job_file.h"

namespace espalier::offline {
namespace {

using fabric::Topology;

constexpr int kFailures[] = {0, 1, 4, 8};
constexpr int kRingSizes[] = {2, 4, 8};
constexpr const char* kResultsFile = "evaluation.json";
constexpr const char* kFiguresProgram = "espalier-figures";

// "ring_size_8" -> 8.
std::optional<int> NumberAfter(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  int number = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + prefix.size(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

// The numbers of failed spines; figures 4 to 6, for which jobs are drawn, have none.
std::span<const int> FailuresOf(const PaperScenario& scenario) {
  return std::span(kFailures).first(scenario.folder.empty() ? 1 : std::size(kFailures));
}

std::vector<Scheme> ListSchemes(const PaperScenario& scenario, const PaperRequest& request) {
  std::vector<Scheme> schemes;
  for (const SchemeColumn& column : TableColumns(request.with_ilp && !scenario.folder.empty())) {
    const std::uint64_t seeds = column.algorithm == Algorithm::kEcmp ? request.seeds : 1;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      schemes.push_back({column.algorithm, column.split, seed});
    }
  }
  return schemes;
}

Result<ScenarioResult> RunScenario(const PaperScenario& scenario, int failed,
                                   const PaperRequest& request,
                                   const std::function<bool()>& is_cancelled) {
  auto topology = BuildPaperFabric();
  if (!topology) return Propagate(topology);
  if (auto done = FailLastSpines(*topology, failed); !done) return Propagate(done);
  auto jobs = scenario.folder.empty()
                  ? DrawJobs(*topology, scenario.concurrent_jobs, scenario.ring_size, request.seed)
                  : ReadJobs(scenario.folder, *topology);
  if (!jobs) return Propagate(jobs);
  ScenarioResult result{scenario.concurrent_jobs, scenario.ring_size, failed, *jobs, {}};
  const auto workload = Workload::Build(*topology, std::move(*jobs));
  if (!workload) return tl::unexpected<Error>(workload.error());
  SchemeRunner runner(*topology, *workload, SolveWithCbc);
  SimulationOptions options;
  options.is_cancelled = is_cancelled;
  for (const Scheme& scheme : ListSchemes(scenario, request)) {
    if (is_cancelled()) return Fail(ErrorCode::kResourceExhausted, "interrupted");
    auto run = runner.Run(scheme, options);
    if (!run) return Propagate(run);
    result.runs.push_back(std::move(*run));
  }
  return result;
}

Result<void> WriteResults(const std::vector<ScenarioResult>& results, const PaperRequest& request) {
  const std::filesystem::path folder(request.output);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Fail(ErrorCode::kPermissionDenied,
                fmt::format("{}: cannot create the folder: {}", request.output, error.message()));
  }
  const std::vector<std::pair<std::string, std::string>> files = {
      {kResultsFile, FormatResultsJson(results) + "\n"},
      {"evaluation.md",
       "# Quality tables\nWritten by `espalier simulate paper` (docs/evaluation.md "
       "explains them).\n\n" +
           FormatQualityTables(results, request.with_ilp)}};
  for (const auto& [name, text] : files) {
    auto written = io::WriteFileDurably((folder / name).string(), text);
    if (!written) return written;
  }
  return {};
}

}  // namespace

std::vector<PaperScenario> FindPaperScenarios(const std::string& root) {
  std::vector<PaperScenario> scenarios;
  std::error_code error;
  for (const auto& jobs : std::filesystem::directory_iterator(root, error)) {
    const auto concurrent = NumberAfter(jobs.path().filename().string(), "concurrent_jobs_");
    if (!concurrent) continue;
    for (const auto& ring : std::filesystem::directory_iterator(jobs.path(), error)) {
      const auto size = NumberAfter(ring.path().filename().string(), "ring_size_");
      if (size) scenarios.push_back({*concurrent, *size, ring.path().string()});
    }
  }
  std::ranges::sort(scenarios, {}, [](const PaperScenario& scenario) {
    return std::tuple(scenario.concurrent_jobs, scenario.ring_size);
  });
  return scenarios;
}

std::vector<PaperScenario> ListDrawnScenarios(const std::vector<PaperScenario>& published,
                                              int most_jobs) {
  int most = 0;
  for (const PaperScenario& scenario : published) most = std::max(most, scenario.concurrent_jobs);
  std::vector<PaperScenario> drawn;
  for (int jobs = most + 1; jobs <= most_jobs; ++jobs) {
    for (const int ring_size : kRingSizes) {
      drawn.push_back({.concurrent_jobs = jobs, .ring_size = ring_size, .folder = ""});
    }
  }
  return drawn;
}

Result<Topology> BuildPaperFabric() {
  auto spec = fabric::BuildLeafSpine({.spines = 32, .leaves = 64, .hosts_per_leaf = 32});
  if (!spec) return Propagate(spec);
  auto topology = Topology::Build(std::move(*spec));
  if (!topology) return tl::unexpected<Error>(topology.error().error);
  return std::move(*topology);
}

Result<void> EvaluatePaper(const PaperRequest& request, const std::function<bool()>& is_cancelled) {
  std::vector<PaperScenario> scenarios = FindPaperScenarios(request.jobs);
  if (scenarios.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}: contains no folder concurrent_jobs_J/ring_size_R (name the folder "
                            "of the paper's jobs)",
                            request.jobs));
  }
  std::ranges::move(ListDrawnScenarios(scenarios, request.most_jobs),
                    std::back_inserter(scenarios));
  std::vector<ScenarioResult> results;
  {
    int count = 0;
    for (const PaperScenario& scenario : scenarios) {
      count += static_cast<int>(FailuresOf(scenario).size());
    }
    cli::Progress progress("evaluation", count);
    for (const PaperScenario& scenario : scenarios) {
      for (const int failed : FailuresOf(scenario)) {
        progress.Next(fmt::format("{} jobs, rings of {}, {} failed spines",
                                  scenario.concurrent_jobs, scenario.ring_size, failed));
        auto result = RunScenario(scenario, failed, request, is_cancelled);
        if (!result) return Propagate(result);
        results.push_back(std::move(*result));
      }
    }
  }
  if (request.json) fmt::print("{}\n", FormatResultsJson(results));
  return WriteResults(results, request);
}

Result<void> DrawFigures(const std::string& folder) {
  const std::string file = (std::filesystem::path(folder) / kResultsFile).string();
  std::error_code error;
  const auto beside =
      std::filesystem::read_symlink("/proc/self/exe", error).replace_filename(kFiguresProgram);
  const bool is_beside = !error && std::filesystem::exists(beside, error);
  const auto run = RunCommand({.argv = {is_beside ? beside.string() : kFiguresProgram, file}});
  if (run && run->exit_code == 0) return {};
  std::string why = run ? run->err : run.error().message;
  while (why.ends_with('\n')) why.pop_back();
  return Fail(ErrorCode::kUnsupported,
              fmt::format("the figures were not drawn: {}; to draw them later: {} {}", why,
                          kFiguresProgram, file));
}

}  // namespace espalier::offline
