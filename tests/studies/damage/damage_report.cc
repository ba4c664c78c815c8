#include "tests/studies/damage/damage_report.h"

#include <fmt/format.h>

#include <utility>

#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/table.h"

namespace espalier::offline {
namespace {

using cli::Column;
using cli::MakeRow;
using cli::PrintTable;

void Write(io::JsonWriter& json, std::size_t hosts, const KnownDamage& row) {
  json.BeginObject().Key("hosts").Integer(static_cast<std::int64_t>(hosts));
  json.Key("traffic").String(TrafficName(row.traffic));
  json.Key("damage").String(DamageName(row.damage));
  json.Key("paths").Integer(row.paths);
  json.Key("bound").Double(row.bound);
  json.Key("slowest_equal_shares").Double(row.equal);
  json.Key("slowest_weights").Double(row.weights);
  json.Key("slowest_by_progress").Double(row.progress).EndObject();
}

void Write(io::JsonWriter& json, std::size_t hosts, const Failure& row) {
  json.BeginObject().Key("hosts").Integer(static_cast<std::int64_t>(hosts));
  json.Key("paths").Integer(row.paths);
  json.Key("dealing").String(row.by_progress ? "progress" : "static");
  json.Key("bound").Double(row.bound);
  json.Key("reactions").BeginArray();
  for (const FailureReaction& reaction : row.reactions) {
    json.BeginObject().Key("reaction").String(reaction.name);
    json.Key("slowest").Double(reaction.slowest);
    json.Key("unfinished_flows").Integer(reaction.unfinished).EndObject();
  }
  json.EndArray().EndObject();
}

void Write(io::JsonWriter& json, std::string_view key, const ShiftedLoads::Worst& worst) {
  json.Key(key).BeginObject().Key("failures").Integer(worst.failures);
  json.Key("load").Double(worst.load).Key("bound").Double(worst.bound);
  json.Key("over_bound").Double(worst.over_bound);
  json.Key("mean_over_bound").Double(worst.mean_over_bound);
  json.Key("paths_without_standby").Integer(worst.without_standby).EndObject();
}

void Write(io::JsonWriter& json, std::size_t hosts, const ShiftedLoads& row) {
  json.BeginObject().Key("hosts").Integer(static_cast<std::int64_t>(hosts));
  json.Key("paths").Integer(row.paths);
  json.Key("load_before").Double(row.before);
  json.Key("promised").Double(row.promised);
  Write(json, "link_failures", row.links);
  Write(json, "spine_failures", row.switches);
  json.EndObject();
}

template <typename Row>
void WriteAll(io::JsonWriter& json, std::string_view key,
              const std::vector<DamageReport::OfFabric<Row>>& rows) {
  json.Key(key).BeginArray();
  for (const auto& [hosts, row] : rows) Write(json, hosts, row);
  json.EndArray();
}

std::string Three(double value) { return fmt::format("{:.3f}", value); }

io::JsonValue RowOf(std::size_t hosts, const KnownDamage& row) {
  return MakeRow({{"hosts", fmt::format("{}", hosts)},
                  {"traffic", std::string(TrafficName(row.traffic))},
                  {"damage", std::string(DamageName(row.damage))},
                  {"paths", fmt::format("{}", row.paths)},
                  {"bound", Three(row.bound)},
                  {"equal", Three(row.equal)},
                  {"weights", Three(row.weights)},
                  {"progress", Three(row.progress)},
                  {"over", Three(row.progress / row.bound)}});
}

// "1.133", "1.133 (3 never)", or "never" if no other flow is slower than those that end.
std::string ReactionText(const FailureReaction& reaction) {
  if (reaction.unfinished == 0) return Three(reaction.slowest);
  return fmt::format("never ({} flows)", reaction.unfinished);
}

io::JsonValue RowOf(std::size_t hosts, const Failure& row) {
  std::vector<std::pair<std::string, std::string>> cells = {
      {"hosts", fmt::format("{}", hosts)},
      {"paths", fmt::format("{}", row.paths)},
      {"dealing", row.by_progress ? "progress" : "static"},
      {"bound", Three(row.bound)}};
  for (const auto& reaction : row.reactions) {
    cells.emplace_back(reaction.name, ReactionText(reaction));
  }
  return MakeRow(cells);
}

io::JsonValue RowOf(std::size_t hosts, const ShiftedLoads& row) {
  const auto over = [](const ShiftedLoads::Worst& worst) {
    return fmt::format("{:.3f}, {:.3f}", worst.over_bound, worst.mean_over_bound);
  };
  return MakeRow(
      {{"hosts", fmt::format("{}", hosts)},
       {"paths", fmt::format("{}", row.paths)},
       {"before", Three(row.before)},
       {"promised", Three(row.promised)},
       {"link", Three(row.links.load)},
       {"link_over", over(row.links)},
       {"spine", Three(row.switches.load)},
       {"spine_over", over(row.switches)},
       {"stranded", fmt::format("{}", row.links.without_standby + row.switches.without_standby)}});
}

template <typename Row>
std::vector<io::JsonValue> RowsOf(const std::vector<DamageReport::OfFabric<Row>>& rows) {
  std::vector<io::JsonValue> objects;
  for (const auto& [hosts, row] : rows) objects.push_back(RowOf(hosts, row));
  return objects;
}

void PrintTitled(const char* title, const std::vector<Column>& columns,
                 const std::vector<io::JsonValue>& rows, bool& is_first) {
  if (rows.empty()) return;
  fmt::print("{}{}\n", std::exchange(is_first, false) ? "" : "\n", title);
  PrintTable(columns, rows);
}

}  // namespace

std::string FormatDamage(const DamageReport& report) {
  io::JsonWriter json;
  json.BeginObject();
  json.Key("seed").Integer(static_cast<std::int64_t>(report.options.seed));
  json.Key("seconds").Double(report.options.seconds);
  json.Key("hosts_after_ms").Double(report.options.hosts_after_ms);
  json.Key("controller_after_ms").Double(report.options.controller_after_ms);
  WriteAll(json, "known", report.known);
  WriteAll(json, "failure", report.failures);
  WriteAll(json, "loads", report.loads);
  json.EndObject();
  return json.Text();
}

void PrintDamage(const DamageReport& report) {
  bool is_first = true;
  PrintTitled("Known damage: slowest flow, by how bytes are dealt out",
              {{"HOSTS", "hosts"},
               {"TRAFFIC", "traffic"},
               {"LINK", "damage"},
               {"PATHS", "paths"},
               {"BOUND", "bound"},
               {"EQUAL_SHARES", "equal"},
               {"WEIGHTS", "weights"},
               {"BY_PROGRESS", "progress"},
               {"OVER_BOUND", "over"}},
              RowsOf(report.known), is_first);
  PrintTitled("A link dies in the middle: slowest flow, by who reacts",
              {{"HOSTS", "hosts"},
               {"PATHS", "paths"},
               {"DEALT_OUT", "dealing"},
               {"BOUND", "bound"},
               {"NOBODY", "nobody"},
               {"HOSTS_ALONE", "hosts_alone"},
               {"CONTROLLER", "controller"},
               {"RECOMPUTE", "recompute"},
               {"BOTH", "both"}},
              RowsOf(report.failures), is_first);
  PrintTitled(
      "Hosts have moved, the controller has not: greatest load, by failures of all links and "
      "spines",
      {{"HOSTS", "hosts"},
       {"PATHS", "paths"},
       {"BEFORE", "before"},
       {"PROMISED", "promised"},
       {"LINK_FAILED", "link"},
       {"OVER_BOUND", "link_over"},
       {"SPINE_FAILED", "spine"},
       {"OVER_BOUND", "spine_over"},
       {"WITHOUT_STANDBY", "stranded"}},
      RowsOf(report.loads), is_first);
}

}  // namespace espalier::offline
