#include "deploy/cli/lists/top_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/interrupt.h"
#include "common/terminal/table.h"
#include "deploy/cli/lists/list_view.h"
#include "deploy/cli/session/patience.h"

namespace espalier::cli {
namespace {

struct TopOptions {
  double interval = 1;  // seconds
  std::size_t rows = 10;
  bool once = false;
};

double ValueOf(const io::JsonValue& row, const std::string& key) {
  return std::strtod(RawText(row, key).c_str(), nullptr);
}

void AddMember(io::JsonValue& row, std::string key, std::string text) {
  io::JsonValue value;
  value.kind = io::JsonValue::Kind::kNumber;
  value.text = std::move(text);
  row.members.emplace_back(std::move(key), std::move(value));
}

// One row for each direction of a link that carries something, the busiest first.
std::vector<io::JsonValue> BusiestDirections(const std::vector<io::JsonValue>& links,
                                             std::size_t count) {
  std::vector<std::pair<double, io::JsonValue>> directions;
  for (const io::JsonValue& link : links) {
    for (const std::string direction : {"a_to_b", "b_to_a"}) {
      const double most = 1e9 * std::max(1e-9, ValueOf(link, "gbps"));
      // Flows and background traffic are measured at different times.
      const double bps = std::min(most, ValueOf(link, "bps_" + direction) +
                                            ValueOf(link, "background_" + direction + ".bps"));
      const std::string flows = RawText(link, "flows_" + direction);
      if (bps <= 0 && flows == "0") continue;
      const double used = bps / most;
      io::JsonValue row = link;
      AddMember(row, "flows", flows);
      AddMember(row, "bps", fmt::format("{:.0f}", bps));
      AddMember(row, "percent", fmt::format("{:.0f}", 100 * used));
      io::JsonValue to;
      to.kind = io::JsonValue::Kind::kString;
      to.text = RawText(link, direction == "a_to_b" ? "b" : "a");
      row.members.emplace_back("to", std::move(to));
      directions.emplace_back(used, std::move(row));
    }
  }
  std::ranges::stable_sort(directions, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first
                              : ValueOf(a.second, "flows") > ValueOf(b.second, "flows");
  });
  std::vector<io::JsonValue> rows;
  for (auto& [used, row] : directions) {
    if (rows.size() < count) rows.push_back(std::move(row));
  }
  return rows;
}

// Jobs by how many times the ideal their all-reduces take.
std::vector<io::JsonValue> SlowestJobs(std::vector<io::JsonValue> jobs, std::size_t count) {
  for (io::JsonValue& job : jobs) {
    const double ideal = ValueOf(job, "ideal_seconds");
    const double times = ideal > 0 ? ValueOf(job, "allreduce_seconds") / ideal : 0;
    AddMember(job, "times_ideal", fmt::format("{:.2f}", times));
  }
  SortRows(jobs, "times_ideal", /*descending=*/true);
  // Jobs that have ended are no news.
  std::ranges::stable_partition(jobs, [](const auto& job) { return RawText(job, "flows") != "0"; });
  if (jobs.size() > count) jobs.resize(count);
  for (io::JsonValue& job : jobs) {
    if (RawText(job, "rounds") != "0") continue;
    std::erase_if(job.members, [](const auto& member) {
      return member.first == "allreduce_seconds" || member.first == "times_ideal";
    });
  }
  return jobs;
}

std::string Headline(const io::JsonValue& status) {
  std::string text = fmt::format("{}: {}", RawText(status, "topology"), RawText(status, "health"));
  if (const io::JsonValue* reasons = status.Find("health_reasons")) {
    for (std::size_t i = 0; i < reasons->items.size(); ++i) {
      text += (i == 0 ? ": " : ", ") + reasons->items[i].text;
    }
  }
  return text + fmt::format("\n{} flows, max load {} (bound {})\n", RawText(status, "flows"),
                            RawText(status, "max_load"), RawText(status, "lower_bound"));
}

// What one picture shows; none if the controller does not answer.
struct Picture {
  io::JsonValue status;
  std::vector<io::JsonValue> links;
  std::vector<io::JsonValue> jobs;
};
std::optional<Picture> Take(Session& session, std::size_t rows) {
  auto status = Ask(session, "GET", "/api/v1/status", /*print_json=*/false);
  if (!status) return std::nullopt;
  const auto links = AskPages(session, "/api/v1/links", "links", /*print_json=*/false);
  if (!links) return std::nullopt;
  const auto jobs = AskPages(session, "/api/v1/jobs", "jobs", /*print_json=*/false);
  if (!jobs) return std::nullopt;
  return Picture{std::move(*status), BusiestDirections(links->Find("links")->items, rows),
                 SlowestJobs(jobs->Find("jobs")->items, rows)};
}

std::string AsJson(const Picture& picture) {
  io::JsonWriter json;
  json.BeginObject().Key("status").Value(picture.status);
  for (const auto& [key, rows] : {std::pair("links", &picture.links), {"jobs", &picture.jobs}}) {
    json.Key(key).BeginArray();
    for (const io::JsonValue& row : *rows) json.Value(row);
    json.EndArray();
  }
  return json.EndObject().Text() + "\n";
}

std::string AsText(const Picture& picture) {
  const std::vector<Column> links = {{"LINK", "id"},
                                     {"TO", "to"},
                                     {"STATE", "state", CellFormat::kState},
                                     {"FLOWS", "flows"},
                                     {"RATE", "bps", CellFormat::kRate},
                                     {"USED %", "percent"}};
  const std::vector<Column> jobs = {{"JOB", "job"},
                                    {"FLOWS", "flows"},
                                    {"NO PATH", "flows_unroutable"},
                                    {"RATE", "achieved_bps", CellFormat::kRate},
                                    {"SLOWEST FLOW", "slowest_flow_bps", CellFormat::kRate},
                                    {"ALL-REDUCE", "allreduce_seconds", CellFormat::kSeconds},
                                    {"TIMES IDEAL", "times_ideal"}};
  return fmt::format("{}\nBusiest links, by the last 100 ms\n{}\nSlowest jobs\n{}",
                     Headline(picture.status), FormatTable(links, picture.links, UsesColours()),
                     FormatTable(jobs, picture.jobs, UsesColours()));
}

void Run(Session& session, const TopOptions& options) {
  const Interrupt interrupt;
  const std::chrono::milliseconds pause(static_cast<std::int64_t>(1000 * options.interval));
  Patience patience(session);
  do {
    const auto picture = patience.Try([&] { return Take(session, options.rows); });
    if (!picture && !patience.has_been_answered()) return;
    if (!picture) continue;
    if (session.json) {
      fmt::print("{}", AsJson(*picture));
    } else {
      fmt::print("{}", options.once ? AsText(*picture) : OnScreen(AsText(*picture)));
    }
    std::fflush(stdout);
  } while (!options.once && interrupt.Wait(pause));
}

}  // namespace

void AddTop(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(
      app, session, "top",
      "Show the busiest links (over the last 100 ms) and the slowest jobs, until Ctrl-C");
  const auto options = std::make_shared<TopOptions>();
  command->add_option("--interval", options->interval, "Time between two pictures")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3'600.0));
  command->add_option("--rows", options->rows, "Rows of each table")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000));
  command->add_flag("--once", options->once, "Show one picture and end");
  command->callback([session, options] { Run(*session, *options); });
}

}  // namespace espalier::cli
