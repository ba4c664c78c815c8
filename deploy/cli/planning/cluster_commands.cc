#include "deploy/cli/planning/cluster_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/files/command_result.h"
#include "common/terminal/interrupt.h"
#include "common/terminal/progress.h"
#include "deploy/cli/planning/cluster_report.h"
#include "deploy/simulation/run.h"
#include "deploy/simulation/scenario_file.h"

namespace espalier::cli {
namespace {

struct Request {
  std::string scenario;
  std::uint64_t seed = 1;
  bool json = false;
};

Result<simulation::RunResult> RunWithProgress(const simulation::Scenario& scenario,
                                              std::uint64_t seed) {
  const Interrupt interrupt;
  ProgressLine line(std::chrono::milliseconds(100), std::chrono::seconds(10));
  const double total = SecondsOf(scenario.duration);
  return simulation::RunScenario(
      scenario,
      {.seed = seed,
       .is_cancelled = [&] { return interrupt.IsRequested(); },
       .on_time =
           [&](Duration done) {
             if (!line.IsDue()) return;
             line.Show(fmt::format("espalier: simulated {:.1f} of {:g} s ({:.0f} %)",
                                   SecondsOf(done), total, 100 * SecondsOf(done) / total));
           }});
}

int RunCluster(const Request& request) {
  const auto scenario = simulation::ReadScenario(request.scenario);
  if (!scenario) return io::ReportError(scenario.error());
  // What the controller and the agents log is in the events; as logs it would be many lines.
  SetLogLevel(LogLevel::kError);
  const auto result = RunWithProgress(*scenario, request.seed);
  if (!result) return io::ReportError(result.error());
  if (request.json) {
    fmt::print("{}\n", FormatRun(*scenario, request.seed, *result));
  } else {
    PrintRun(*scenario, *result);
  }
  for (const std::string& violation : result->violations) {
    fmt::print(stderr, "espalier: {}\n", violation);
  }
  return result->violations.empty() ? 0 : io::kExitFailed;
}

}  // namespace

void AddClusterSimulation(CLI::App& simulate, int& exit_code) {
  auto request = std::make_shared<Request>();
  CLI::App* command = simulate.add_subcommand(
      "cluster",
      "Simulate a whole cluster under virtual time: the real controller and agents on simulated "
      "hosts, with failures");
  command->add_option("--scenario", request->scenario, "Scenario file (docs/formats.md)")
      ->required();
  command
      ->add_option("--seed", request->seed,
                   "Seed of all that is random; the same scenario and seed print the same")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 53U));
  command->add_flag("--json", request->json, "Print one JSON object on standard output");
  command->footer(
      "The exit code is 1 if, for the last second of the run, a flow stood still, had no path or "
      "took another path than decided although it need not.\n"
      "Examples:\n"
      "  espalier simulate cluster --scenario deploy/simulation/examples/phases.json --seed 7");
  command->callback([request, &exit_code] { exit_code = RunCluster(*request); });
}

}  // namespace espalier::cli
