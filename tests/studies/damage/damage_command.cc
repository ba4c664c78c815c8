#include "tests/studies/damage/damage_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/fabric/builders.h"
#include "common/files/command_result.h"
#include "common/files/topology_file.h"
#include "common/terminal/interrupt.h"
#include "common/terminal/progress.h"
#include "tests/studies/damage/damage_report.h"
#include "tests/studies/damage/damage_study.h"

namespace espalier::offline {
namespace {

using cli::Interrupt;
using cli::Progress;

using fabric::Topology;

constexpr Damage kDamages[] = {Damage::kDead, Damage::kHalfRate};

struct Request {
  std::string topology;
  std::vector<int> hosts{64, 256, 1024};
  std::string link;
  std::vector<int> sets{1, 4, 8, 16};
  std::vector<std::string> only;
  DamageOptions options;
  bool json = false;
};

// Of a number of hosts: as many uplinks as hosts at every leaf, 16 of each, or 32 from 1,024 on.
Result<Topology> BuildFabric(int hosts) {
  const int per_leaf = hosts < 1024 ? 16 : 32;
  if (hosts % per_leaf != 0 || hosts < 2 * per_leaf) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--hosts: {} hosts do not fill leaves of {} (give a multiple, at least "
                            "two leaves)",
                            hosts, per_leaf));
  }
  auto spec = fabric::BuildLeafSpine(
      {.spines = per_leaf, .leaves = hosts / per_leaf, .hosts_per_leaf = per_leaf});
  if (!spec) return Propagate(spec);
  auto topology = Topology::Build(std::move(*spec));
  if (!topology) return tl::unexpected<Error>(topology.error().error);
  return std::move(*topology);
}

Result<std::vector<Topology>> ListFabrics(const Request& request) {
  std::vector<Topology> fabrics;
  if (!request.topology.empty()) {
    auto topology = io::ReadTopologyFile(request.topology);
    if (!topology) return Propagate(topology);
    fabrics.push_back(std::move(*topology));
    return fabrics;
  }
  for (const int hosts : request.hosts) {
    auto topology = BuildFabric(hosts);
    if (!topology) return Propagate(topology);
    fabrics.push_back(std::move(*topology));
  }
  return fabrics;
}

bool IsWanted(const Request& request, std::string_view study) {
  return request.only.empty() || std::ranges::find(request.only, study) != request.only.end();
}

// The studies of one fabric.
class Studies {
 public:
  Studies(const Request& request, Progress& progress, DamageReport& report)
      : request_(request), progress_(progress), report_(report) {}

  Result<void> Run(const DamageStudy& study) {
    nics_ = study.nics();
    sets_ = request_.sets;
    for (int& paths : sets_) paths = std::min(paths, study.LargestSet());
    sets_.erase(std::unique(sets_.begin(), sets_.end()), sets_.end());
    if (IsWanted(request_, "known")) {
      for (const Traffic traffic : {Traffic::kPermutation, Traffic::kRings}) {
        for (const Damage damage : kDamages) {
          for (const int paths : sets_) {
            Begin("known");
            if (auto row = study.RunKnown(traffic, damage, paths); !Keep(row, report_.known)) {
              return Propagate(row);
            }
          }
        }
      }
    }
    for (const int paths : sets_) {
      if (IsWanted(request_, "failure")) {
        Begin("failure");
        auto rows = study.RunFailure(paths);
        if (!rows) return Propagate(rows);
        for (auto& row : *rows) report_.failures.push_back({nics_, std::move(row)});
      }
      if (!IsWanted(request_, "loads")) continue;
      Begin("loads");
      if (auto row = study.RunShiftedLoads(paths); !Keep(row, report_.loads)) {
        return Propagate(row);
      }
    }
    return {};
  }

  // How many parts Run has for a fabric.
  static int Count(const Request& request) {
    const auto sets = static_cast<int>(request.sets.size());
    int count = 0;
    if (IsWanted(request, "known")) count += 4 * sets;
    if (IsWanted(request, "failure")) count += sets;
    if (IsWanted(request, "loads")) count += sets;
    return count;
  }

 private:
  void Begin(std::string_view study) { progress_.Next(fmt::format("{}, {} hosts", study, nics_)); }

  template <typename Row>
  bool Keep(Result<Row>& row, std::vector<DamageReport::OfFabric<Row>>& rows) {
    if (!row) return false;
    rows.push_back({nics_, std::move(*row)});
    return true;
  }

  const Request& request_;
  Progress& progress_;
  DamageReport& report_;
  std::size_t nics_ = 0;
  std::vector<int> sets_;  // no larger than the fabric allows
};

int RunDamage(const Request& request) {
  const auto fabrics = ListFabrics(request);
  if (!fabrics) return io::ReportError(fabrics.error());
  SetLogLevel(LogLevel::kError);
  const Interrupt interrupt;
  DamageOptions options = request.options;
  options.is_cancelled = [&interrupt] { return interrupt.IsRequested(); };
  DamageReport report{.options = options};
  {
    Progress progress("damage", Studies::Count(request) * static_cast<int>(fabrics->size()));
    for (const Topology& topology : *fabrics) {
      const auto link = FindUplink(topology, request.link);
      if (!link) return io::ReportError(link.error());
      Studies studies(request, progress, report);
      const auto done = studies.Run(DamageStudy(topology, *link, options));
      if (!done) return io::ReportError(done.error());
    }
  }
  if (request.json) {
    fmt::print("{}\n", FormatDamage(report));
  } else {
    PrintDamage(report);
  }
  return 0;
}

void AddFabric(CLI::App& command, Request& request) {
  CLI::Option* topology = command.add_option(
      "--topology", request.topology, "Topology file (default: fabrics of leaves and spines)");
  command
      .add_option(
          "--hosts", request.hosts,
          "Numbers of hosts of fabrics to make, separated by commas: leaves of 16 hosts with "
          "16 spines, from 1,024 hosts on 32 with 32")
      ->type_name("COUNTS")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(32, 4096))
      ->excludes(topology);
  command.add_option("--link", request.link,
                     "Link to damage, between a leaf and a switch above it (default: the first)");
}

void AddTimes(CLI::App& command, DamageOptions& options) {
  const std::tuple<const char*, double*, const char*> times[] = {
      {"--seconds", &options.seconds, "Seconds that the transfer of a flow takes if it is alone"},
      {"--hosts-after-ms", &options.hosts_after_ms,
       "Milliseconds from a link's death until hosts go to their standby paths"},
      {"--controller-after-ms", &options.controller_after_ms,
       "Milliseconds from a link's death until the controller takes it out of service"},
  };
  for (const auto& [name, value, help] : times) {
    command.add_option(name, *value, help)
        ->type_name("NUMBER")
        ->capture_default_str()
        ->check(CLI::Range(name == std::string("--seconds") ? 0.001 : 0.0, 1e6));
  }
}

}  // namespace

void AddDamageOptions(CLI::App& command, int& exit_code) {
  auto request = std::make_shared<Request>();
  AddFabric(command, *request);
  command
      .add_option("--sets", request->sets, "Numbers of paths of a flow's set, separated by commas")
      ->type_name("COUNTS")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, kMostPaths));
  command.add_option("--jobs", request->options.jobs, "Number of rings, each a job")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  AddTimes(command, request->options);
  command
      .add_option("--only", request->only,
                  "Studies to run, separated by commas: known, failure, loads")
      ->type_name("NAMES")
      ->delimiter(',')
      ->check(CLI::IsMember({"known", "failure", "loads"}));
  command.add_option("--seed", request->options.seed, "Seed of who sends to whom")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 53U));
  command.add_flag("--json", request->json, "Print one JSON object on standard output");
  command.footer(
      "All times are relative to a transfer alone. The bound is that of flows which can be divided "
      "at "
      "will.\n"
      "Examples:\n"
      "  damage_study --hosts 64 --sets 1,8\n"
      "  damage_study --topology fabric.json --link leaf0--spine0 --only "
      "failure,loads");
  command.callback([request, &exit_code] { exit_code = RunDamage(*request); });
}

}  // namespace espalier::offline
