#include "controller/offline/evaluation/paper_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/files/json.h"

namespace espalier::cli {
namespace {

using controller::JobOutcome;

// Of the job's values in a column's runs, the one in the middle; none without runs.
std::optional<double> Median(const ScenarioResult& scenario, const SchemeColumn& column,
                             std::size_t job, double JobOutcome::*value) {
  std::vector<double> values;
  for (const SchemeRun* run : RunsOf(scenario, column)) {
    values.push_back(run->outcome.jobs[job].*value);
  }
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

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

// What the figures compare: one column a series, whose place here is its colour.
std::vector<SchemeColumn> FigureColumns(bool with_ilp = false) {
  std::vector<SchemeColumn> columns = {{"ECMP (median)", Algorithm::kEcmp, 1},
                                       {"annealing", Algorithm::kAnnealing, 1},
                                       {"greedy", Algorithm::kGreedy, 1},
                                       {"optimal", Algorithm::kOptimal, 1},
                                       {"optimal, split 4", Algorithm::kOptimal, 4},
                                       {"ideal", Algorithm::kIdeal, 1}};
  if (with_ilp) columns.push_back({"ILP", Algorithm::kIlp, 1});
  return columns;
}

Figure StartFigure(std::string title, std::string y_label) {
  Figure figure;
  figure.title = std::move(title);
  figure.y_label = std::move(y_label);
  for (const SchemeColumn& column : FigureColumns()) {
    figure.series.push_back({column.title, figure.series.size()});
  }
  return figure;
}

// Bars of one model's jobs in chosen scenarios, one group each.
BarPanel DrawPanel(std::string title, std::string x_label,
                   const std::vector<std::pair<std::string, const ScenarioResult*>>& groups,
                   const std::string& model, double JobOutcome::*value) {
  BarPanel panel;
  panel.title = std::move(title);
  panel.x_label = std::move(x_label);
  panel.values.resize(FigureColumns().size());
  for (const auto& [name, scenario] : groups) {
    const auto job = std::ranges::find(scenario->jobs, model, &controller::Job::model);
    if (job == scenario->jobs.end()) continue;
    panel.groups.push_back(name);
    for (std::size_t s = 0; s < panel.values.size(); ++s) {
      panel.values[s].push_back(Median(*scenario, FigureColumns()[s],
                                       static_cast<std::size_t>(job - scenario->jobs.begin()),
                                       value));
    }
  }
  return panel;
}

// Scenarios by the number of jobs, the ring size or the failed spines, the others held.
using Groups = std::vector<std::pair<std::string, const ScenarioResult*>>;

Groups SelectGroups(const std::vector<ScenarioResult>& results, int ScenarioResult::*axis,
                    const std::vector<std::pair<int ScenarioResult::*, int>>& held) {
  Groups groups;
  for (const ScenarioResult& result : results) {
    const bool fits = std::ranges::all_of(
        held, [&](const auto& field) { return result.*field.first == field.second; });
    if (fits) groups.emplace_back(fmt::format("{}", result.*axis), &result);
  }
  return groups;
}

std::set<int> ValuesOf(const std::vector<ScenarioResult>& results, int ScenarioResult::*field) {
  std::set<int> values;
  for (const ScenarioResult& result : results) values.insert(result.*field);
  return values;
}

constexpr const char* kMainModel = "BLOOM";

Figure DrawAllReduce(const std::vector<ScenarioResult>& results) {
  Figure figure = StartFigure("Figure 4: all-reduce time of BLOOM", "seconds");
  const auto value = &JobOutcome::allreduce_seconds;
  for (const int ring : ValuesOf(results, &ScenarioResult::ring_size)) {
    figure.bars.push_back(DrawPanel(
        fmt::format("ring size {}", ring), "concurrent jobs",
        SelectGroups(results, &ScenarioResult::concurrent_jobs,
                     {{&ScenarioResult::ring_size, ring}, {&ScenarioResult::failed_spines, 0}}),
        kMainModel, value));
  }
  for (const int jobs : ValuesOf(results, &ScenarioResult::concurrent_jobs)) {
    figure.bars.push_back(DrawPanel(CountJobs(jobs), "ring size",
                                    SelectGroups(results, &ScenarioResult::ring_size,
                                                 {{&ScenarioResult::concurrent_jobs, jobs},
                                                  {&ScenarioResult::failed_spines, 0}}),
                                    kMainModel, value));
  }
  return figure;
}

// Every model and ring size that the results hold.
Figure DrawPerModel(const std::vector<ScenarioResult>& results, std::string title,
                    std::string y_label, double JobOutcome::*value) {
  Figure figure = StartFigure(std::move(title), std::move(y_label));
  std::set<std::pair<int, std::string>> panels;
  for (const ScenarioResult& result : results) {
    for (const controller::Job& job : result.jobs) panels.emplace(result.ring_size, job.model);
  }
  for (const auto& [ring, model] : panels) {
    figure.bars.push_back(DrawPanel(
        fmt::format("{}, ring size {}", model, ring), "concurrent jobs",
        SelectGroups(results, &ScenarioResult::concurrent_jobs,
                     {{&ScenarioResult::ring_size, ring}, {&ScenarioResult::failed_spines, 0}}),
        model, value));
  }
  return figure;
}

Figure DrawAssignmentTimes(const std::vector<ScenarioResult>& results) {
  Figure figure;
  figure.title = "Figure 7: time of one assignment";
  figure.y_label = "microseconds";
  LinePanel panel{
      .title = "median of each scenario without failures", .x_label = "flows", .points = {}};
  const std::vector<SchemeColumn> columns = FigureColumns(true);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].algorithm == Algorithm::kIdeal || columns[c].algorithm == Algorithm::kEcmp) {
      continue;
    }
    std::vector<std::pair<double, double>> points;
    for (const ScenarioResult& result : results) {
      if (result.failed_spines > 0) continue;
      for (const SchemeRun* run : RunsOf(result, columns[c])) {
        const double time = TypicalMicroseconds(run->assignment_seconds);
        if (time <= 0) continue;
        points.emplace_back(static_cast<double>(run->outcome.assigned_flows) /
                                static_cast<double>(run->outcome.assignments),
                            time);
      }
    }
    if (points.empty()) continue;
    figure.series.push_back({columns[c].title, c});
    panel.points.push_back(std::move(points));
  }
  figure.lines.push_back(std::move(panel));
  return figure;
}

Figure DrawFailures(const std::vector<ScenarioResult>& results) {
  Figure figure = StartFigure("Figure 8: all-reduce time of BLOOM with failed spines", "seconds");
  for (const int jobs : ValuesOf(results, &ScenarioResult::concurrent_jobs)) {
    for (const int ring : ValuesOf(results, &ScenarioResult::ring_size)) {
      figure.bars.push_back(DrawPanel(
          fmt::format("{}, ring size {}", CountJobs(jobs), ring), "failed spines",
          SelectGroups(
              results, &ScenarioResult::failed_spines,
              {{&ScenarioResult::concurrent_jobs, jobs}, {&ScenarioResult::ring_size, ring}}),
          kMainModel, &JobOutcome::allreduce_seconds));
    }
  }
  std::erase_if(figure.bars, [](const BarPanel& panel) { return panel.groups.empty(); });
  return figure;
}

void WriteRun(io::JsonWriter& json, const ScenarioResult& scenario, const SchemeRun& run) {
  json.BeginObject().Key("algorithm").String(AlgorithmName(run.scheme.algorithm));
  json.Key("split").Integer(run.scheme.split);
  json.Key("seed").Integer(static_cast<std::int64_t>(run.scheme.seed));
  json.Key("max_link_load").Double(run.outcome.max_link_load);
  json.Key("assignments").Integer(run.outcome.assignments);
  json.Key("assigned_flows").Integer(run.outcome.assigned_flows);
  json.Key("microseconds_per_assignment").Double(TypicalMicroseconds(run.assignment_seconds));
  json.Key("wall_seconds").Double(run.wall_seconds);
  json.Key("jobs").BeginArray();
  for (std::size_t j = 0; j < scenario.jobs.size(); ++j) {
    const JobOutcome& job = run.outcome.jobs[j];
    json.BeginObject().Key("job").String(scenario.jobs[j].id);
    json.Key("model").String(scenario.jobs[j].model);
    json.Key("allreduce_seconds").Double(job.allreduce_seconds);
    json.Key("mean_flow_completion_seconds").Double(job.mean_completion_seconds);
    json.Key("mean_throughput_gbps").Double(job.mean_throughput_gbps);
    json.EndObject();
  }
  json.EndArray().EndObject();
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
    for (const SchemeRun& run : scenario.runs) WriteRun(json, scenario, run);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

std::vector<std::pair<std::string, Figure>> DrawPaperFigures(
    const std::vector<ScenarioResult>& results) {
  return {{"figure4.svg", DrawAllReduce(results)},
          {"figure5.svg", DrawPerModel(results, "Figure 5: mean flow completion time", "seconds",
                                       &JobOutcome::mean_completion_seconds)},
          {"figure6.svg", DrawPerModel(results, "Figure 6: mean flow throughput", "Gbit/s",
                                       &JobOutcome::mean_throughput_gbps)},
          {"figure7.svg", DrawAssignmentTimes(results)},
          {"figure8.svg", DrawFailures(results)}};
}

}  // namespace espalier::cli
