// espalier-phases: compares plain ECMP, a controller that counts connections and one that counts
// what is busy, on training jobs whose connections live as long as the run, in a lab fabric. It
// takes the programs beside it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "common/os/scratch_folder.h"
#include "deploy/demo/phases_job.h"
#include "deploy/demo/phases_report.h"

namespace espalier::demo {
namespace {

constexpr const char* kLabName = "phases";
constexpr std::int64_t kLinkBitsPerSecond = 50'000'000;

struct Arguments {
  PhasesShape shape;
  int seeds = 5;
  std::string scheme = "all";
  bool json = false;
};

// Runs one seed under one scheme.
Result<void> RunScheme(const lab::Lab& lab, const Experiment& experiment, int seed, Scheme scheme,
                       const std::string& folder, SchemeResult& result) {
  std::optional<LabDaemons> daemons;
  if (scheme != Scheme::kEcmp) {
    const std::string programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::filesystem::create_directories(folder);
    auto started = LabDaemons::Start(lab, programs, folder, ControllerFields(scheme));
    if (!started) return Propagate(started);
    daemons.emplace(std::move(*started));
  }
  auto run =
      RunMeasured(lab, experiment, static_cast<std::uint64_t>(seed), daemons ? &*daemons : nullptr);
  if (!run) return Propagate(run);
  if (!run->completed) {
    return Fail(ErrorCode::kInternal, "the traffic did not end within its time limit");
  }
  run->figures.scheme = NameOf(scheme);
  result.runs.push_back(run->figures);
  result.steered_ports += run->steered_flows;
  result.mismatches += run->mismatches;
  return {};
}

Result<PhasesComparison> Compare(const Arguments& arguments, const std::string& folder) {
  PhasesComparison comparison{
      .link_mbps = kLinkBitsPerSecond / 1e6, .seeds = arguments.seeds, .shape = arguments.shape};
  for (int seed = 1; seed <= arguments.seeds; ++seed) {
    auto lab = lab::Lab::Start({.name = kLabName,
                                .link_rate = BitsPerSecond{kLinkBitsPerSecond},
                                .seed = static_cast<std::uint64_t>(seed),
                                .die_with_caller = true});
    if (!lab) return Propagate(lab);
    for (const Scheme scheme : kSchemes) {
      const std::string name = NameOf(scheme);
      if (arguments.scheme != "all" && arguments.scheme != name) continue;
      auto experiment = MakePhases(lab->layout(), arguments.shape.For(scheme));
      if (!experiment) return Propagate(experiment);
      comparison.ideal = experiment->ideal;
      SchemeResult& result = comparison.schemes[name];
      auto ran = RunScheme(*lab, *experiment, seed, scheme,
                           fmt::format("{}/{}-{}", folder, seed, name), result);
      if (!ran) return Propagate(ran);
      const double busiest = result.runs.back().max_link_flows;
      fmt::print(stderr, "seed {}: {:<11} slowest burst {:.3f} s, worst link {:g} flow{}\n", seed,
                 name, result.runs.back().slowest_flow_seconds, busiest, busiest == 1 ? "" : "s");
    }
    if (Result<void> stopped = lab::Lab::Stop(kLabName); !stopped) return Propagate(stopped);
  }
  return comparison;
}

int Run(const Arguments& arguments) {
  const auto folder = ScratchFolder::Make("phases");
  if (!folder) {
    fmt::print(stderr, "espalier-phases: {}\n", folder.error().message);
    return 1;
  }
  const Result<PhasesComparison> comparison = Compare(arguments, folder->path());
  if (!comparison) {
    fmt::print(stderr, "espalier-phases: {}\n", comparison.error().message);
    return 1;
  }
  fmt::print("{}\n", arguments.json ? PhasesJson(*comparison) : PhasesTable(*comparison));
  return 0;
}

}  // namespace
}  // namespace espalier::demo

int main(int argc, char** argv) {
  CLI::App app(
      "Compare plain ECMP with a controller that counts connections and one that counts what is "
      "busy, on training jobs with phases in a lab.");
  espalier::demo::Arguments arguments;
  app.add_option("--jobs", arguments.shape.jobs, "Number of concurrent jobs")
      ->capture_default_str()
      ->check(CLI::IsMember({2, 4}));
  app.add_option("--queue-pairs", arguments.shape.queue_pairs,
                 "Number of connections between two hosts of a job")
      ->capture_default_str()
      ->check(CLI::Range(1, 16));
  app.add_option("--jitter", arguments.shape.jitter_percent,
                 "How far times of computing vary, in per cent")
      ->capture_default_str()
      ->check(CLI::Range(0, 100));
  app.add_option(
         "--iterations", arguments.shape.iterations,
         "Number of iterations with the scheme espalier, of which the second half counts; the "
         "others have fewer, as they learn nothing")
      ->capture_default_str()
      ->check(CLI::Range(2, 10'000));
  app.add_option("--seeds", arguments.seeds,
                 "Number of fabrics and runs; figures are medians over them")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_option("--scheme", arguments.scheme, "Run only this scheme")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", "ecmp", "connections", "espalier"}));
  app.add_flag("--json", arguments.json, "Print one JSON object instead of the table");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return espalier::demo::Run(arguments);
}
