// espalier-quickstart: runs the main job on a live fabric of network namespaces, with plain ECMP
// and with Espalier.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "common/os/scratch_folder.h"
#include "deploy/demo/failover.h"
#include "deploy/demo/keep.h"
#include "deploy/demo/main_job.h"
#include "deploy/demo/phases_job.h"

namespace espalier::demo {
namespace {

constexpr const char* kLabName = "quickstart";
constexpr int kEpochs = 2;
constexpr std::int64_t kLinkBitsPerSecond = 50'000'000;

struct Arguments {
  int seeds = 5;
  bool json = false;
  bool keep = false;
};

// Runs by workload and scheme, one per seed.
using RunsByKind = std::map<std::pair<std::string, std::string>, std::vector<RunFigures>>;

// The workloads of a scheme. Counting connections differs from the other schemes only for phases,
// as all connections of the other workloads are busy.
Result<std::vector<Experiment>> MakeExperiments(const lab::LabLayout& plan, Scheme scheme) {
  auto permutation = MakePermutation(plan);
  if (!permutation) return Propagate(permutation);
  auto rings = MakeTwoRings(plan, kEpochs);
  if (!rings) return Propagate(rings);
  auto phases = MakePhases(plan, PhasesShape().For(scheme));
  if (!phases) return Propagate(phases);
  if (scheme == Scheme::kConnections) return std::vector{std::move(*phases)};
  return std::vector{std::move(*permutation), std::move(*rings), std::move(*phases)};
}

Result<void> RunSeed(const lab::Lab& lab, int seed, Scheme scheme, const LabDaemons* daemons,
                     RunsByKind& runs, Report& report) {
  auto experiments = MakeExperiments(lab.layout(), scheme);
  if (!experiments) return Propagate(experiments);
  for (const Experiment& experiment : *experiments) {
    auto run = RunMeasured(lab, experiment, static_cast<std::uint64_t>(seed), daemons);
    if (!run) return Propagate(run);
    RunFigures& figures = run->figures;
    figures.scheme = NameOf(scheme);
    fmt::print(stderr, "seed {}: {:<12} {:<11} slowest flow {:5.2f} s, worst link {:g} flow{}\n",
               seed, figures.name, figures.scheme, figures.slowest_flow_seconds,
               figures.max_link_flows, figures.max_link_flows == 1 ? "" : "s");
    if (!run->completed) {
      return Fail(ErrorCode::kInternal, "the traffic did not end within its time limit");
    }
    runs[{figures.name, figures.scheme}].push_back(figures);
    report.steered_flows += run->steered_flows;
    report.spine_counter_mismatches += run->mismatches;
  }
  return {};
}

Result<void> RunConnections(const lab::Lab& lab, int seed, const std::string& programs,
                            const std::string& folder, RunsByKind& runs, Report& report) {
  std::filesystem::create_directories(folder);
  auto daemons = LabDaemons::Start(lab, programs, folder, ControllerFields(Scheme::kConnections));
  if (!daemons) return Propagate(daemons);
  return RunSeed(lab, seed, Scheme::kConnections, &*daemons, runs, report);
}

Result<void> RunAll(const Arguments& arguments, const std::string& programs,
                    const std::string& folder) {
  Report report{.fabric = "4x4x4", .link_mbps = kLinkBitsPerSecond / 1e6, .seeds = arguments.seeds};
  RunsByKind runs;
  for (int seed = 1; seed <= arguments.seeds; ++seed) {
    const bool last = seed == arguments.seeds;
    auto lab = lab::Lab::Start({.name = kLabName,
                                .link_rate = BitsPerSecond{kLinkBitsPerSecond},
                                .seed = static_cast<std::uint64_t>(seed),
                                .die_with_caller = true});
    if (!lab) return Propagate(lab);
    Result<void> ran = RunSeed(*lab, seed, Scheme::kEcmp, nullptr, runs, report);
    if (!ran) return Propagate(ran);
    const std::string seed_folder = fmt::format("{}/{}", folder, seed);
    ran = RunConnections(*lab, seed, programs, seed_folder + "/connections", runs, report);
    if (!ran) return Propagate(ran);

    auto daemons =
        LabDaemons::Start(*lab, programs, seed_folder, ControllerFields(Scheme::kEspalier));
    if (!daemons) return Propagate(daemons);
    ran = RunSeed(*lab, seed, Scheme::kEspalier, &*daemons, runs, report);
    if (!ran) return Propagate(ran);
    if (last) {
      fmt::print(stderr, "seed {}: two-rings    a far link fails\n", seed);
      auto experiments = MakeExperiments(lab->layout(), Scheme::kEspalier);
      if (!experiments) return Propagate(experiments);
      auto failure = RunWithFailure(*lab, (*experiments)[1], static_cast<std::uint64_t>(seed),
                                    *daemons, Detection::kOperator);
      if (!failure) return Propagate(failure);
      report.failure = *failure;
      for (const Experiment& experiment : *experiments) report.ideal.push_back(experiment.ideal);
      for (const auto& [kind, of_kind] : runs) report.runs.push_back(MedianOf(of_kind));
      fmt::print("{}\n", arguments.json ? ReportJson(report) : ReportTable(report));
      std::fflush(stdout);
      if (arguments.keep) ran = KeepRunning(*lab, *daemons, seed_folder);
      if (!ran) return ran;
    }
    if (Result<void> stopped = lab::Lab::Stop(kLabName); !stopped) return stopped;
  }
  return {};
}

int Run(const Arguments& arguments) {
  const auto folder = ScratchFolder::Make("quickstart");
  if (!folder) {
    fmt::print(stderr, "espalier-quickstart: {}\n", folder.error().message);
    return 1;
  }
  const std::string programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const Result<void> ran = RunAll(arguments, programs, folder->path());
  if (ran) return 0;
  fmt::print(stderr, "espalier-quickstart: {}\n", ran.error().message);
  return 1;
}

}  // namespace
}  // namespace espalier::demo

int main(int argc, char** argv) {
  CLI::App app(
      "Run the main job on a live fabric on this machine, with plain ECMP and with Espalier.");
  espalier::demo::Arguments arguments;
  app.add_option("--seeds", arguments.seeds,
                 "Number of fabrics and runs; figures are medians over them")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_flag("--json", arguments.json, "Print one JSON object instead of the table");
  app.add_flag("--keep", arguments.keep, "Then run two jobs until Ctrl-C");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return espalier::demo::Run(arguments);
}
