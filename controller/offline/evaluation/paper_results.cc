#include "controller/offline/evaluation/paper_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/files/json_writer.h"
#include "controller/offline/evaluation/run_json.h"

namespace espalier::offline {
namespace {

std::string FormatCell(const ScenarioResult& scenario, const SchemeColumn& column,
                       std::size_t job) {
  std::vector<double> values;
  for (const SchemeRun* run : RunsOf(scenario, column)) {
    values.push_back(run->outcome.jobs[job].allreduce_seconds);
  }
  if (values.empty()) return "-";
  std::ranges::sort(values);
  if (values.size() == 1) return fmt::format("{:.4f}", values.front());
  return fmt::format("{:.3f} / {:.3f} / {:.3f}", values.front(), values[(values.size() - 1) / 2],
                     values.back());
}

std::string FormatHeader(const std::vector<SchemeColumn>& columns, std::string_view first) {
  std::string text = fmt::format("| {} |", first);
  std::string rule = "|---|";
  for (const SchemeColumn& column : columns) {
    text += fmt::format(" {} |", column.title);
    rule += "---|";
  }
  return text + "\n" + rule + "\n";
}

std::string CountJobs(int jobs) { return fmt::format("{} job{}", jobs, jobs == 1 ? "" : "s"); }

std::string FormatScenario(const ScenarioResult& scenario) {
  return fmt::format("{}, ring {}, {} failed", CountJobs(scenario.concurrent_jobs),
                     scenario.ring_size, scenario.failed_spines);
}

std::string FormatAllReduceTable(const std::vector<ScenarioResult>& results,
                                 const std::vector<SchemeColumn>& columns) {
  std::string text = "## All-reduce time, seconds\n\n" + FormatHeader(columns, "scenario, model");
  for (const ScenarioResult& scenario : results) {
    for (std::size_t job = 0; job < scenario.jobs.size(); ++job) {
      text += fmt::format("| {}: {} |", FormatScenario(scenario), scenario.jobs[job].model);
      for (const SchemeColumn& column : columns) {
        text += fmt::format(" {} |", FormatCell(scenario, column, job));
      }
      text += '\n';
    }
  }
  return text;
}

std::string FormatLoadTable(const std::vector<ScenarioResult>& results,
                            const std::vector<SchemeColumn>& columns) {
  std::string text =
      "\n## Maximum link load (flows; the worst of all assignments) and median time of "
      "an assignment (microseconds)\n\n" +
      FormatHeader(columns, "scenario");
  for (const ScenarioResult& scenario : results) {
    text += fmt::format("| {} |", FormatScenario(scenario));
    for (const SchemeColumn& column : columns) {
      double load = 0;
      std::vector<double> seconds;
      for (const SchemeRun* run : RunsOf(scenario, column)) {
        load = std::max(load, run->outcome.max_link_load);
        seconds.insert(seconds.end(), run->assignment_seconds.begin(),
                       run->assignment_seconds.end());
      }
      if (seconds.empty()) {
        text += " - |";
      } else if (column.algorithm == Algorithm::kIdeal) {
        text += " |";
      } else {
        text += fmt::format(" {:.4g}; {:.0f} |", load, TypicalMicroseconds(seconds));
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::vector<SchemeColumn> TableColumns(bool with_ilp) {
  std::vector<SchemeColumn> columns = {
      {"ideal", Algorithm::kIdeal, 1},
      {"greedy", Algorithm::kGreedy, 1},
      {"optimal", Algorithm::kOptimal, 1},
      {"optimal, split 2", Algorithm::kOptimal, 2},
      {"optimal, split 4", Algorithm::kOptimal, 4},
      {"optimal, split 8", Algorithm::kOptimal, 8},
      {"ECMP: least / median / greatest", Algorithm::kEcmp, 1},
      {"annealing", Algorithm::kAnnealing, 1},
  };
  if (with_ilp) columns.push_back({"ILP", Algorithm::kIlp, 1});
  return columns;
}

std::vector<const SchemeRun*> RunsOf(const ScenarioResult& scenario, const SchemeColumn& column) {
  std::vector<const SchemeRun*> runs;
  for (const SchemeRun& run : scenario.runs) {
    if (run.scheme.algorithm == column.algorithm && run.scheme.split == column.split) {
      runs.push_back(&run);
    }
  }
  return runs;
}

std::string FormatQualityTables(const std::vector<ScenarioResult>& results, bool with_ilp) {
  const std::vector<SchemeColumn> columns = TableColumns(with_ilp);
  return FormatAllReduceTable(results, columns) + FormatLoadTable(results, columns);
}

std::string FormatResultsJson(const std::vector<ScenarioResult>& results) {
  io::JsonWriter json;
  json.BeginObject().Key("scenarios").BeginArray();
  for (const ScenarioResult& scenario : results) {
    json.BeginObject().Key("concurrent_jobs").Integer(scenario.concurrent_jobs);
    json.Key("ring_size").Integer(scenario.ring_size);
    json.Key("failed_spines").Integer(scenario.failed_spines);
    json.Key("runs").BeginArray();
    for (const SchemeRun& run : scenario.runs)
      WriteRun(json, run, scenario.jobs, RunDetail::kSummary);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace espalier::offline
