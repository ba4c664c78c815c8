#include "deploy/cli/planning/cluster_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

using simulation::FaultRecord;
using simulation::JobResult;
using simulation::RunEvent;
using simulation::RunResult;

constexpr std::size_t kMostLines = 60;  // of events
constexpr std::size_t kMostAlike = 3;   // lines of one kind in a row

// Figures of some periods of a job.
struct Periods {
  std::size_t first = 0;
  std::size_t count = 0;
  Duration median{};
  Duration worst{};
  int ports_changed = 0;
};

Periods Summarise(const JobResult& job, std::size_t first) {
  Periods periods{.first = first};
  std::vector<Duration> times(job.communication.begin() + static_cast<std::ptrdiff_t>(first),
                              job.communication.end());
  periods.count = times.size();
  if (times.empty()) return periods;
  std::ranges::sort(times);
  periods.median = times[(times.size() - 1) / 2];
  periods.worst = times.back();
  periods.ports_changed = std::accumulate(
      job.ports_changed.begin() + static_cast<std::ptrdiff_t>(first), job.ports_changed.end(), 0);
  return periods;
}

void WritePeriods(io::JsonWriter& json, const Periods& periods) {
  json.BeginObject();
  json.Key("periods").Integer(static_cast<std::int64_t>(periods.count));
  json.Key("median_seconds").Double(SecondsOf(periods.median));
  json.Key("worst_seconds").Double(SecondsOf(periods.worst));
  json.Key("ports_changed").Integer(periods.ports_changed).EndObject();
}

void WriteJob(io::JsonWriter& json, const JobResult& job) {
  json.BeginObject().Key("job").String(job.id);
  json.Key("ideal_seconds").Double(SecondsOf(job.ideal));
  json.Key("all");
  WritePeriods(json, Summarise(job, 0));
  json.Key("second_half");
  WritePeriods(json, Summarise(job, job.communication.size() / 2));
  json.Key("communication_seconds").BeginArray();
  for (const Duration time : job.communication) json.Double(SecondsOf(time));
  json.EndArray().Key("ports_changed").BeginArray();
  for (const int changed : job.ports_changed) json.Integer(changed);
  json.EndArray().Key("unfinished_seconds").Double(SecondsOf(job.unfinished)).EndObject();
}

void WriteCounts(io::JsonWriter& json, const RunResult& result) {
  json.Key("most_loaded_link").BeginObject().Key("link").String(result.loaded_link);
  json.Key("connections").Integer(result.loaded_link_connections);
  json.Key("at_seconds").Double(SecondsOf(result.loaded_link_at)).EndObject();
  json.Key("path_changes").BeginObject();
  for (const auto& [reason, count] : result.path_changes.by_reason) {
    json.Key(simulation::ReasonName(reason)).Integer(count);
  }
  json.Key("to_ecmp").Integer(result.path_changes.to_ecmp).EndObject();
  json.Key("pushes").Integer(result.pushes).Key("full_pushes").Integer(result.full_pushes);
  json.Key("probes").Integer(result.probes).Key("mismatches").Integer(result.mismatches);
  json.Key("local_reroutes").Integer(result.local_reroutes);
  json.Key("messages").BeginObject();
  json.Key("delivered").Integer(static_cast<std::int64_t>(result.messages.delivered));
  json.Key("lost").Integer(static_cast<std::int64_t>(result.messages.lost));
  json.Key("duplicated").Integer(static_cast<std::int64_t>(result.messages.duplicated));
  json.Key("refused").Integer(static_cast<std::int64_t>(result.messages.refused)).EndObject();
  json.Key("faults").BeginObject();
  for (const auto& [fault, record] : result.faults) {
    json.Key(simulation::FaultName(fault)).BeginObject();
    json.Key("most_flows").Integer(static_cast<std::int64_t>(record.most));
    json.Key("longest_seconds").Double(SecondsOf(record.longest));
    json.Key("lasting_flows").Integer(static_cast<std::int64_t>(record.lasting)).EndObject();
  }
  json.EndObject();
}

std::string Milliseconds(Duration time) { return fmt::format("{:.3f}", 1e3 * SecondsOf(time)); }

io::JsonValue MakeJobRow(const JobResult& job, std::size_t first) {
  const Periods periods = Summarise(job, first);
  const double ideal = SecondsOf(job.ideal);
  return MakeRow(
      {{"job", job.id},
       {"periods",
        periods.count > 0 ? fmt::format("{}-{}", first + 1, first + periods.count) : "none"},
       {"ideal", Milliseconds(job.ideal)},
       {"median", Milliseconds(periods.median)},
       {"worst", Milliseconds(periods.worst)},
       {"factor", fmt::format("{:.3f}", ideal > 0 ? SecondsOf(periods.median) / ideal : 0)},
       {"ports", fmt::format("{}", periods.ports_changed)}});
}

// Two rows of each job: all periods, and their second half, when the job's phases are learned.
void PrintJobs(const RunResult& result) {
  std::vector<io::JsonValue> rows;
  for (const JobResult& job : result.jobs) {
    const std::size_t half = job.communication.size() / 2;
    rows.push_back(MakeJobRow(job, 0));
    if (half > 0) rows.push_back(MakeJobRow(job, half));
  }
  PrintTable({{"JOB", "job"},
              {"PERIODS", "periods"},
              {"IDEAL_MS", "ideal"},
              {"MEDIAN_MS", "median"},
              {"WORST_MS", "worst"},
              {"MEDIAN/IDEAL", "factor"},
              {"PORTS_CHANGED", "ports"}},
             rows);
}

void PrintCounts(const simulation::Scenario& scenario, const RunResult& result) {
  const auto line = [](std::string_view name, const std::string& text) {
    fmt::print("{:<21} {}\n", name, text);
  };
  line("simulated", fmt::format("{:g} s, mode {}, {} events", SecondsOf(scenario.duration),
                                simulation::ModeName(scenario.mode), result.callbacks));
  line("most loaded link",
       result.loaded_link.empty()
           ? "none"
           : fmt::format("{}: {} busy connections at {:.3f} s", result.loaded_link,
                         result.loaded_link_connections, SecondsOf(result.loaded_link_at)));
  std::string reasons;
  for (const auto& [reason, count] : result.path_changes.by_reason) {
    reasons += fmt::format(", {} {}", simulation::ReasonName(reason), count);
  }
  if (result.path_changes.to_ecmp > 0)
    reasons += fmt::format(", to ECMP {}", result.path_changes.to_ecmp);
  line("path changes", fmt::format("{}{}", result.path_changes.Total(), reasons));
  line("pushes", fmt::format("{} ({} full)", result.pushes, result.full_pushes));
  line("probes", fmt::format("{}, which found {} ports on another path than known", result.probes,
                             result.mismatches));
  line("local reroutes", fmt::format("{}", result.local_reroutes));
  line("messages",
       fmt::format("{} delivered, {} lost, {} duplicated, {} refused", result.messages.delivered,
                   result.messages.lost, result.messages.duplicated, result.messages.refused));
  const std::pair<simulation::Fault, const char*> faults[] = {
      {simulation::Fault::kStandsStill, "flows at a standstill"},
      {simulation::Fault::kUnroutable, "flows without a path"},
      {simulation::Fault::kOtherPath, "flows on other paths"}};
  for (const auto& [fault, name] : faults) {
    const FaultRecord& record = result.faults.at(fault);
    line(name, fmt::format("at most {}, for up to {:.1f} s, {} at the end", record.most,
                           SecondsOf(record.longest), record.lasting));
  }
}

void PrintEvents(std::span<const RunEvent> events) {
  std::vector<io::JsonValue> rows;
  std::size_t shown = 0;  // events of the rows
  while (shown < events.size() && rows.size() < kMostLines) {
    const RunEvent& event = events[shown];
    std::size_t alike = 1;
    while (shown + alike < events.size() && events[shown + alike].kind == event.kind) ++alike;
    const bool is_joined = alike > kMostAlike && event.kind != "action";
    rows.push_back(
        MakeRow({{"at", fmt::format("{:.3f}", SecondsOf(event.at))},
                 {"event", event.kind},
                 {"source", event.source},
                 {"text", is_joined ? fmt::format("{} such events", alike) : event.text}}));
    shown += is_joined ? alike : 1;
  }
  PrintTable({{"AT_S", "at"}, {"EVENT", "event"}, {"SOURCE", "source"}, {"TEXT", "text"}}, rows);
  if (shown < events.size())
    fmt::print("... and {} more events (--json has all)\n", events.size() - shown);
}

}  // namespace

std::string FormatRun(const simulation::Scenario& scenario, std::uint64_t seed,
                      const RunResult& result) {
  io::JsonWriter json;
  json.BeginObject().Key("scenario").String(scenario.name);
  json.Key("mode").String(simulation::ModeName(scenario.mode));
  json.Key("seed").Integer(static_cast<std::int64_t>(seed));
  json.Key("simulated_seconds").Double(SecondsOf(scenario.duration));
  json.Key("simulated_events").Integer(static_cast<std::int64_t>(result.callbacks));
  json.Key("trace").String(fmt::format("{:016x}", result.trace));
  json.Key("jobs").BeginArray();
  for (const JobResult& job : result.jobs) WriteJob(json, job);
  json.EndArray();
  WriteCounts(json, result);
  json.Key("events").BeginArray();
  for (const RunEvent& event : result.events) {
    json.BeginObject().Key("at_seconds").Double(SecondsOf(event.at));
    json.Key("event").String(event.kind).Key("source").String(event.source);
    json.Key("text").String(event.text).EndObject();
  }
  json.EndArray().Key("violations").BeginArray();
  for (const std::string& violation : result.violations) json.String(violation);
  json.EndArray().EndObject();
  return json.Text();
}

void PrintRun(const simulation::Scenario& scenario, const RunResult& result) {
  PrintJobs(result);
  fmt::print("\n");
  PrintCounts(scenario, result);
  fmt::print("\n");
  PrintEvents(result.events);
}

}  // namespace espalier::cli
