#include "tests/studies/lab/damage_study.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/json_writer.h"
#include "tests/studies/lab/damaged_run.h"

namespace espalier::demo {
namespace {

constexpr const char* kLabName = "damage";

std::vector<std::string> NamesOfDamages() {
  std::vector<std::string> names;
  for (const Damage damage : kDamages) names.push_back(NameOf(damage));
  return names;
}

struct Arguments {
  int seeds = 5;
  std::vector<int> tiers = {2};
  std::vector<int> paths = {1, 4, 16};
  std::vector<std::string> damages = NamesOfDamages();
  std::vector<int> unknown_percents = {0};
  std::vector<int> mice_percents = {0};
  std::vector<std::string> schemes = {"ecmp", "espalier", "alone"};
  int ring_epochs = 0;
  bool json = false;
};

struct Row {
  // "ecmp", "espalier", "feed": Espalier whose controller hears of loads from the switches, or
  // "alone": Espalier whose controller is killed.
  std::string scheme;
  int tiers = 2;
  DamageCase what;
  std::vector<DamageFigures> runs;  // by seed
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// 16 hosts. In three tiers every flow goes to the other pod.
lab::LabOptions Shape(int tiers) {
  if (tiers == 2) return {};
  return {.spines = 4, .leaves = 2, .hosts_per_leaf = 4, .pods = 2, .cores = 8};
}

Result<void> RunSeed(const lab::Lab& lab, std::uint64_t seed, const std::string& programs,
                     const std::string& folder, Row& row) {
  std::optional<LabDaemons> daemons;
  if (row.scheme != "ecmp") {
    auto started = LabDaemons::Start(lab, programs, folder);
    if (!started) return Propagate(started);
    daemons.emplace(std::move(*started));
  }
  auto figures = RunWithDamage(lab, row.what, seed, daemons ? &*daemons : nullptr);
  if (!figures) return Propagate(figures);
  row.runs.push_back(*figures);
  return {};
}

// Runs one row on a fabric of its own for each seed.
Result<Row> RunRow(Row row, int seeds, const std::string& programs) {
  lab::LabOptions shape = Shape(row.tiers);
  shape.name = kLabName;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(seeds); ++seed) {
    Result<void> ran =
        RunOnFabric(shape, seed, [&](const lab::Lab& lab, const std::string& folder) {
          return RunSeed(lab, seed, programs, folder, row);
        });
    if (!ran) return Propagate(ran);
  }
  return row;
}

// All combinations of the arguments; without a controller there is only damage that happens later.
std::vector<Row> Rows(const Arguments& arguments) {
  std::vector<DamageCase> cases;
  for (const Damage damage : kDamages) {
    if (std::ranges::find(arguments.damages, NameOf(damage)) == arguments.damages.end()) continue;
    for (const int unknown : arguments.unknown_percents) {
      for (const int mice : arguments.mice_percents) {
        cases.push_back({.damage = damage,
                         .unknown_percent = unknown,
                         .mice_percent = mice,
                         .ring_epochs = arguments.ring_epochs});
      }
    }
  }
  std::vector<Row> rows;
  for (const int tiers : arguments.tiers) {
    for (DamageCase& what : cases) {
      for (const std::string& scheme : arguments.schemes) {
        what.feeds_loads = scheme == "feed";
        what.kills_controller = scheme == "alone";
        if (what.kills_controller && !HappensLater(what.damage)) continue;
        for (const int paths : arguments.paths) {
          what.paths = paths;
          rows.push_back({.scheme = scheme, .tiers = tiers, .what = what, .runs = {}});
        }
      }
    }
  }
  return rows;
}

std::vector<double> Ratios(const Row& row, double DamageFigures::*seconds) {
  std::vector<double> ratios;
  for (const DamageFigures& run : row.runs) ratios.push_back(run.*seconds / run.ideal_seconds);
  return ratios;
}

void WriteRow(io::JsonWriter& json, const Row& row) {
  const auto list = [&](std::string_view key, const auto& write) {
    json.Key(key).BeginArray();
    for (const DamageFigures& run : row.runs) write(run);
    json.EndArray();
  };
  json.BeginObject();
  json.Key("tiers").Integer(row.tiers);
  json.Key("damage").String(NameOf(row.what.damage));
  json.Key("scheme").String(row.scheme);
  json.Key("paths").Integer(row.what.paths);
  json.Key("flows").Integer(row.runs.front().flows);
  json.Key("unknown_percent").Integer(row.what.unknown_percent);
  json.Key("unknown_flows").Integer(row.runs.front().unknown_flows);
  json.Key("mice_percent").Integer(row.what.mice_percent);
  json.Key("mice").Integer(row.runs.front().mice);
  list("slowest_by_ideal",
       [&](const DamageFigures& run) { json.Double(run.slowest_seconds / run.ideal_seconds); });
  list("slowest_known_by_ideal", [&](const DamageFigures& run) {
    json.Double(run.slowest_known_seconds / run.ideal_seconds);
  });
  list("mice_p99_seconds", [&](const DamageFigures& run) { json.Double(run.mice_p99_seconds); });
  list("hanging_flows", [&](const DamageFigures& run) { json.Integer(run.hanging_flows); });
  list("recovered_flows", [&](const DamageFigures& run) { json.Integer(run.recovered_flows); });
  list("slowest_recovery_seconds",
       [&](const DamageFigures& run) { json.Double(run.slowest_recovery_seconds); });
  if (row.what.ring_epochs > 0) {
    list("slowest_job", [&](const DamageFigures& run) { json.Double(run.slowest_job); });
    list("mean_job", [&](const DamageFigures& run) { json.Double(run.mean_job); });
  }
  json.EndObject();
}

// What is beside the flows that are steered: "beside 2 of 16 flows unknown".
std::string BesideText(const Row& row) {
  const DamageFigures& first = row.runs.front();
  std::string text;
  if (first.unknown_flows > 0) {
    text += fmt::format(", {} of {} flows unknown (of the others {:.2f})", first.unknown_flows,
                        first.flows, Median(Ratios(row, &DamageFigures::slowest_known_seconds)));
  }
  if (first.mice > 0) {
    std::vector<double> times;
    for (const DamageFigures& run : row.runs) times.push_back(run.mice_p99_seconds);
    text += fmt::format(", {} mice (p99 {:.0f} ms)", first.mice, 1'000 * Median(times));
  }
  return text;
}

void PrintRings(const Row& row) {
  std::vector<double> slowest;
  std::vector<double> means;
  for (const DamageFigures& run : row.runs) {
    slowest.push_back(run.slowest_job);
    means.push_back(run.mean_job);
  }
  fmt::print(stderr,
             "lost: {:<17} {:<9} slowest job {:.2f} of the ideal ({:.2f} to "
             "{:.2f}), mean {:.2f}\n",
             NameOf(row.what.damage), row.scheme, Median(slowest), std::ranges::min(slowest),
             std::ranges::max(slowest), Median(means));
}

void PrintRow(const Row& row) {
  if (row.what.ring_epochs > 0) return PrintRings(row);
  const std::vector<double> ratios = Ratios(row, &DamageFigures::slowest_seconds);
  int hanging = 0;
  for (const DamageFigures& run : row.runs) hanging += run.hanging_flows;
  fmt::print(
      stderr,
      "{} tiers, lost: {:<17} {:<9} {:>2} connections: slowest flow {:.2f} of the ideal ({:.2f} to "
      "{:.2f}){}, {} flows did not end\n",
      row.tiers, NameOf(row.what.damage), row.scheme, row.what.paths, Median(ratios),
      std::ranges::min(ratios), std::ranges::max(ratios), BesideText(row), hanging);
}

Result<void> RunAll(const Arguments& arguments, const std::string& programs) {
  io::JsonWriter json;
  json.BeginObject().Key("seeds").Integer(arguments.seeds);
  json.Key("link_mbps").Double(static_cast<double>(kLinkRate.value) / 1e6);
  json.Key("rows").BeginArray();
  for (const Row& row : Rows(arguments)) {
    Result<Row> ran = RunRow(row, arguments.seeds, programs);
    if (!ran) return Propagate(ran);
    PrintRow(*ran);
    WriteRow(json, *ran);
  }
  json.EndArray().EndObject();
  if (arguments.json) fmt::print("{}\n", json.Text());
  return {};
}

}  // namespace

RunStudy AddDamageStudy(CLI::App& command) {
  const auto arguments = std::make_shared<Arguments>();
  command.add_option("--seeds", arguments->seeds, "Number of fabrics and runs of each row")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  command
      .add_option(
          "--tiers", arguments->tiers,
          "2: four leaves of four hosts, and four spines; 3: two pods of two such leaves and "
          "four aggregation switches, and eight cores")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(2, 3));
  command.add_option("--paths", arguments->paths, "Numbers of connections of each flow")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 16));
  command
      .add_option(
          "--lost", arguments->damages,
          "What a link loses in the middle, silently: none, data, acknowledgements, all. Or "
          "before the flows begin, and known: before (it is down), half (half of its rate)")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember(NamesOfDamages()));
  command
      .add_option("--unknown", arguments->unknown_percents,
                  "Percentages of the flows, at least one flow unless 0, that are announced to no "
                  "agent; they are on plain ECMP")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(0, 100));
  command
      .add_option("--mice", arguments->mice_percents,
                  "Percentages of the bytes that go in flows of 64 kB, which are not steered; the "
                  "figure counts the other flows only")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(0, 80));
  command
      .add_option("--schemes", arguments->schemes,
                  "ecmp (plain ECMP), espalier, feed (Espalier that hears from the switches how "
                  "loaded links are), alone (its controller is killed right before a loss)")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"ecmp", "espalier", "feed", "alone"}));
  command
      .add_option(
          "--rings", arguments->ring_epochs,
          "Number of all-reduces of rings that run in place of the permutation, one for each "
          "host of a leaf, each a job of its own; the figures are mean times of the first "
          "half of each job's all-reduces")
      ->check(CLI::Range(2, 1'000));
  command.add_flag("--json", arguments->json, "Print one JSON object on standard output");
  return [arguments](const std::string& programs) { return RunAll(*arguments, programs); };
}

}  // namespace espalier::demo
