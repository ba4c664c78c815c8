// espalier-damage: what a link that begins to lose all packets silently does to a permutation of
// flows in a lab fabric, under plain ECMP and under Espalier, with one or several connections for
// each flow. It takes the programs beside it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/os/scratch_folder.h"
#include "deploy/demo/damage.h"

namespace espalier::demo {
namespace {

constexpr const char* kLabName = "damage";
constexpr std::int64_t kLinkBitsPerSecond = 50'000'000;

struct Arguments {
  int seeds = 5;
  std::vector<int> paths = {1, 4, 16};
  std::vector<std::string> damages = {"none", "before", "data", "acknowledgements", "all"};
  std::vector<std::string> schemes = {"ecmp", "espalier", "alone"};
  bool json = false;
};

struct Row {
  std::string scheme;  // "ecmp", "espalier", or "alone": Espalier whose controller is killed
  DamageCase what;
  std::vector<DamageFigures> runs;  // by seed
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Runs one row in a fabric of its own for each seed.
Result<Row> RunRow(Row row, int seeds, const std::string& folder) {
  const std::string programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto number = static_cast<std::uint64_t>(seed);
    auto lab = lab::Lab::Start({.name = kLabName,
                                .link_rate = BitsPerSecond{kLinkBitsPerSecond},
                                .seed = number,
                                .die_with_caller = true});
    if (!lab) return Propagate(lab);
    std::optional<LabDaemons> daemons;
    if (row.scheme != "ecmp") {
      const std::string place = fmt::format("{}/{}-{}-{}-{}", folder, row.scheme, row.what.paths,
                                            NameOf(row.what.damage), seed);
      std::filesystem::create_directories(place);
      auto started = LabDaemons::Start(*lab, programs, place);
      if (!started) return Propagate(started);
      daemons.emplace(std::move(*started));
    }
    auto figures = RunWithDamage(*lab, row.what, number, daemons ? &*daemons : nullptr);
    daemons.reset();
    if (Result<void> stopped = lab::Lab::Stop(kLabName); !stopped) return Propagate(stopped);
    if (!figures) return Propagate(figures);
    row.runs.push_back(*figures);
  }
  return row;
}

std::vector<Row> Rows(const Arguments& arguments) {
  std::vector<Row> rows;
  for (const Damage damage : kDamages) {
    if (std::ranges::find(arguments.damages, NameOf(damage)) == arguments.damages.end()) continue;
    for (const std::string& scheme : arguments.schemes) {
      const bool has_controller = damage == Damage::kNone || damage == Damage::kDownBefore;
      if (scheme == "alone" && has_controller) continue;
      for (const int paths : arguments.paths) {
        rows.push_back(
            {.scheme = scheme,
             .what = {.damage = damage, .paths = paths, .kills_controller = scheme == "alone"}});
      }
    }
  }
  return rows;
}

std::vector<double> Ratios(const Row& row) {
  std::vector<double> ratios;
  for (const DamageFigures& run : row.runs)
    ratios.push_back(run.slowest_seconds / run.ideal_seconds);
  return ratios;
}

void WriteRow(io::JsonWriter& json, const Row& row) {
  json.BeginObject();
  json.Key("damage").String(NameOf(row.what.damage));
  json.Key("scheme").String(row.scheme);
  json.Key("paths").Integer(row.what.paths);
  json.Key("slowest_by_ideal").BeginArray();
  for (const double ratio : Ratios(row)) json.Double(ratio);
  json.EndArray();
  json.Key("hanging_flows").BeginArray();
  for (const DamageFigures& run : row.runs) json.Integer(run.hanging_flows);
  json.EndArray();
  json.Key("recovered_flows").BeginArray();
  for (const DamageFigures& run : row.runs) json.Integer(run.recovered_flows);
  json.EndArray();
  json.Key("slowest_recovery_seconds").BeginArray();
  for (const DamageFigures& run : row.runs) json.Double(run.slowest_recovery_seconds);
  json.EndArray();
  json.EndObject();
}

void PrintRow(const Row& row) {
  const std::vector<double> ratios = Ratios(row);
  int hanging = 0;
  for (const DamageFigures& run : row.runs) hanging += run.hanging_flows;
  fmt::print(stderr,
             "lost: {:<17} {:<9} {:>2} connections: slowest flow {:.2f} of the ideal ({:.2f} to "
             "{:.2f}), {} flows did not end\n",
             NameOf(row.what.damage), row.scheme, row.what.paths, Median(ratios),
             std::ranges::min(ratios), std::ranges::max(ratios), hanging);
}

int Run(const Arguments& arguments) {
  const auto folder = ScratchFolder::Make("damage");
  if (!folder) {
    fmt::print(stderr, "espalier-damage: {}\n", folder.error().message);
    return 1;
  }
  io::JsonWriter json;
  json.BeginObject().Key("seeds").Integer(arguments.seeds);
  json.Key("link_mbps").Double(kLinkBitsPerSecond / 1e6);
  json.Key("rows").BeginArray();
  for (const Row& row : Rows(arguments)) {
    const Result<Row> ran = RunRow(row, arguments.seeds, folder->path());
    if (!ran) {
      fmt::print(stderr, "espalier-damage: {}\n", ran.error().message);
      return 1;
    }
    PrintRow(*ran);
    WriteRow(json, *ran);
  }
  json.EndArray().EndObject();
  if (arguments.json) fmt::print("{}\n", json.Text());
  return 0;
}

}  // namespace
}  // namespace espalier::demo

int main(int argc, char** argv) {
  CLI::App app(
      "Show what a link that silently loses packets does to a permutation of flows in a lab: under "
      "plain ECMP (ecmp), under Espalier (espalier), and under Espalier whose controller is killed "
      "right before (alone).");
  espalier::demo::Arguments arguments;
  app.add_option("--seeds", arguments.seeds, "Number of fabrics and runs of each row")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_option("--paths", arguments.paths, "Numbers of connections of each flow")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 16));
  app.add_option("--lost", arguments.damages,
                 "What the link loses: none, data, acknowledgements, all; before: it is down, and "
                 "known to be, before the flows begin")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "before", "data", "acknowledgements", "all"}));
  app.add_option("--schemes", arguments.schemes,
                 "ecmp, espalier, alone (Espalier without its controller)")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"ecmp", "espalier", "alone"}));
  app.add_flag("--json", arguments.json, "Print one JSON object on standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return espalier::demo::Run(arguments);
}
