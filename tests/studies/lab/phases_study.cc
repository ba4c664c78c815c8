#include "tests/studies/lab/phases_study.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "deploy/demo/phases_job.h"
#include "tests/studies/lab/phases_report.h"

namespace espalier::demo {
namespace {

constexpr const char* kLabName = "phases";

struct Arguments {
  PhasesShape shape;
  int seeds = 5;
  std::string scheme = "all";
  bool json = false;
};

// Runs one seed under one scheme.
Result<void> RunScheme(const lab::Lab& lab, const Experiment& experiment, int seed, Scheme scheme,
                       const std::string& programs, const std::string& folder,
                       SchemeResult& result) {
  std::optional<LabDaemons> daemons;
  if (scheme != Scheme::kEcmp) {
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

Result<void> RunSeed(const lab::Lab& lab, int seed, const Arguments& arguments,
                     const std::string& programs, const std::string& folder,
                     PhasesComparison& comparison) {
  for (const Scheme scheme : kSchemes) {
    const std::string name = NameOf(scheme);
    if (arguments.scheme != "all" && arguments.scheme != name) continue;
    auto experiment = MakePhases(lab.layout(), arguments.shape.For(scheme));
    if (!experiment) return Propagate(experiment);
    comparison.ideal = experiment->ideal;
    SchemeResult& result = comparison.schemes[name];
    auto ran = RunScheme(lab, *experiment, seed, scheme, programs,
                         fmt::format("{}/{}", folder, name), result);
    if (!ran) return ran;
    const double busiest = result.runs.back().max_link_flows;
    fmt::print(stderr, "seed {}: {:<11} slowest burst {:.3f} s, worst link {:g} flow{}\n", seed,
               name, result.runs.back().slowest_flow_seconds, busiest, busiest == 1 ? "" : "s");
  }
  return {};
}

Result<void> RunAll(const Arguments& arguments, const std::string& programs) {
  PhasesComparison comparison{.link_mbps = static_cast<double>(kLinkRate.value) / 1e6,
                              .seeds = arguments.seeds,
                              .shape = arguments.shape};
  for (int seed = 1; seed <= arguments.seeds; ++seed) {
    Result<void> ran =
        RunOnFabric({.name = kLabName}, static_cast<std::uint64_t>(seed),
                    [&](const lab::Lab& lab, const std::string& folder) {
                      return RunSeed(lab, seed, arguments, programs, folder, comparison);
                    });
    if (!ran) return ran;
  }
  fmt::print("{}\n", arguments.json ? PhasesJson(comparison) : PhasesTable(comparison));
  return {};
}

}  // namespace

RunStudy AddPhasesStudy(CLI::App& command) {
  const auto arguments = std::make_shared<Arguments>();
  command.add_option("--jobs", arguments->shape.jobs, "Number of concurrent jobs")
      ->capture_default_str()
      ->check(CLI::IsMember({2, 4}));
  command
      .add_option("--queue-pairs", arguments->shape.queue_pairs,
                  "Number of connections between two hosts of a job")
      ->capture_default_str()
      ->check(CLI::Range(1, 16));
  command
      .add_option("--jitter", arguments->shape.jitter_percent,
                  "How far times of computing vary, in per cent")
      ->capture_default_str()
      ->check(CLI::Range(0, 100));
  command
      .add_option("--iterations", arguments->shape.iterations,
                  "Number of iterations with the scheme espalier, of which the second half counts; "
                  "the others have fewer, as they learn nothing")
      ->capture_default_str()
      ->check(CLI::Range(2, 10'000));
  command
      .add_option("--seeds", arguments->seeds,
                  "Number of fabrics and runs; figures are medians over them")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  command.add_option("--scheme", arguments->scheme, "Run only this scheme")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", "ecmp", "connections", "espalier"}));
  command.add_flag("--json", arguments->json, "Print one JSON object instead of the table");
  return [arguments](const std::string& programs) { return RunAll(*arguments, programs); };
}

}  // namespace espalier::demo
