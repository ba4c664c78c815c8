// path_set_bench: measures what flows with several paths, standby paths and links of paths cost on
// the wire, the controller and the agent. Both run in this process, under virtual time. Each case
// is measured in each round; processor times are the least of all rounds. docs/benchmarks.md has
// figures.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "tests/bench/path_set_sides.h"

namespace espalier::bench {
namespace {

constexpr PathSetCase kCases[] = {
    {.paths = 1},
    {.paths = 1, .has_standbys = true},
    {.paths = 1, .has_standbys = true, .tells_links = true},
    {.paths = 8},
    {.paths = 8, .has_standbys = true},
    {.paths = 8, .has_standbys = true, .tells_links = true},
};

struct Row {
  const char* text;
  const char* unit;
  double PathSetFigures::*value;
};

constexpr Row kRows[] = {
    {"to agents: first push with ports", "B", &PathSetFigures::assignment_bytes},
    {"to agents: all until standbys are there", "B", &PathSetFigures::all_push_bytes},
    {"to the controller: opening", "B", &PathSetFigures::opening_bytes},
    {"to the controller: a progress report", "B", &PathSetFigures::progress_bytes},
    {"to the controller: a health report", "B", &PathSetFigures::health_bytes},
    {"controller: opened until pushed", "us", &PathSetFigures::assignment_us},
    {"controller: until standbys are there", "us", &PathSetFigures::standbys_us},
    {"controller: the second after that", "us", &PathSetFigures::rest_us},
    {"controller: a progress report", "us", &PathSetFigures::progress_us},
    {"controller: a health report", "us", &PathSetFigures::health_us},
    {"controller: memory", "KiB", &PathSetFigures::controller_kib},
    {"agent: a second", "us", &PathSetFigures::agent_us},
    {"agent: memory", "KiB", &PathSetFigures::agent_kib},
};

void Print(const PathSetOptions& options, const std::vector<PathSetFigures>& figures) {
  fmt::print("{} flows of {} hosts, {} spines; per flow; in brackets: of the first column\n\n",
             options.hosts * options.flows, options.hosts, options.spines);
  fmt::print("{:<50}", "");
  for (const PathSetCase& with : kCases) {
    fmt::print("{:>17}", fmt::format("{} {}", with.paths,
                                     with.tells_links    ? "standby+links"
                                     : with.has_standbys ? "standby"
                                                         : "alone"));
  }
  fmt::print("\n");
  for (const Row& row : kRows) {
    fmt::print("{:<46}{:<4}", row.text, row.unit);
    for (const PathSetFigures& one : figures) {
      const double first = figures.front().*row.value;
      const std::string ratio = first > 0 ? fmt::format("{:.2f}", one.*row.value / first) : "-";
      fmt::print("{:>17}", fmt::format("{:.1f} ({})", one.*row.value, ratio));
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) {
  using namespace espalier::bench;
  CLI::App app("Measure what sets of paths cost on the wire, the controller and the agent.");
  PathSetOptions options;
  int rounds = 5;
  app.add_option("--hosts", options.hosts, "Number of hosts, 32 for each leaf")
      ->capture_default_str();
  app.add_option("--flows", options.flows, "Number of flows of each host")->capture_default_str();
  app.add_option("--spines", options.spines, "Number of spines")->capture_default_str();
  app.add_option("--rounds", rounds, "Number of rounds")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  espalier::SetLogLevel(espalier::LogLevel::kError);
  std::vector<PathSetFigures> least(std::size(kCases));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < std::size(kCases); ++i) {
      PathSetFigures figures;
      MeasureController(options, kCases[i], figures);
      MeasureAgent(options, kCases[i], figures);
      for (const Row& row : kRows) {
        const double known = round == 0 ? figures.*row.value : least[i].*row.value;
        least[i].*row.value = std::min(known, figures.*row.value);
      }
    }
  }
  Print(options, least);
  return 0;
}
