#include "deploy/demo/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "common/base/check.h"
#include "common/files/json_writer.h"

namespace espalier::demo {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// "1 flow", "2.5 flows".
std::string Count(double number, std::string_view thing) {
  return fmt::format("{:g} {}{}", number, thing, number == 1 ? "" : "s");
}

double MedianFigure(std::span<const RunFigures> runs,
                    const std::function<double(const RunFigures&)>& figure) {
  std::vector<double> values;
  for (const RunFigures& run : runs) values.push_back(figure(run));
  return Median(std::move(values));
}

void WriteJobs(io::JsonWriter& json, const std::map<std::string, double>& jobs) {
  json.Key("jobs").BeginArray();
  for (const auto& [job, seconds] : jobs) {
    json.BeginObject();
    json.Key("job").String(job);
    json.Key("allreduce_seconds").Double(seconds);
    json.EndObject();
  }
  json.EndArray();
}

void WriteRun(io::JsonWriter& json, const RunFigures& run) {
  json.BeginObject();
  json.Key("name").String(run.name);
  json.Key("scheme").String(run.scheme);
  json.Key("slowest_flow_seconds").Double(run.slowest_flow_seconds);
  json.Key("median_flow_seconds").Double(run.median_flow_seconds);
  json.Key("max_link_flows").Double(run.max_link_flows);
  json.Key("throughput_mbps").Double(run.throughput_mbps);
  json.Key("ports_changed_per_iteration").Double(run.ports_changed_per_iteration);
  WriteJobs(json, run.allreduce_seconds);
  json.EndObject();
}

void WriteFailure(io::JsonWriter& json, const FailureFigures& failure) {
  json.Key("failure").BeginObject();
  json.Key("link").String(failure.link);
  json.Key("flows_on_link").Integer(failure.flows_on_link);
  json.Key("flows_moved").Integer(failure.flows_moved);
  json.Key("dead_flows").Integer(failure.dead_flows);
  json.Key("seconds_to_move").Double(failure.seconds_to_move);
  json.Key("flows_recovered").Integer(failure.flows_recovered);
  json.Key("slowest_recovery_seconds").Double(failure.slowest_recovery_seconds);
  json.Key("job_completed").Bool(failure.job_completed);
  json.EndObject();
}

constexpr const char* kRow = "{:<12} {:<11} {:>14} {:>14} {:>12} {:>12}  {}\n";

std::string JobsText(const std::map<std::string, double>& jobs) {
  std::string text;
  for (const auto& [job, seconds] : jobs) text += fmt::format("{} {:.2f} s  ", job, seconds);
  return text;
}

std::string Seconds(double seconds) { return fmt::format("{:.2f} s", seconds); }

}  // namespace

RunFigures MedianOf(std::span<const RunFigures> runs) {
  ESPALIER_CHECK(!runs.empty());
  RunFigures median{.name = runs[0].name, .scheme = runs[0].scheme};
  median.slowest_flow_seconds =
      MedianFigure(runs, [](const RunFigures& run) { return run.slowest_flow_seconds; });
  median.median_flow_seconds =
      MedianFigure(runs, [](const RunFigures& run) { return run.median_flow_seconds; });
  median.max_link_flows =
      MedianFigure(runs, [](const RunFigures& run) { return run.max_link_flows; });
  median.throughput_mbps =
      MedianFigure(runs, [](const RunFigures& run) { return run.throughput_mbps; });
  median.ports_changed_per_iteration =
      MedianFigure(runs, [](const RunFigures& run) { return run.ports_changed_per_iteration; });
  for (const auto& [job, seconds] : runs[0].allreduce_seconds) {
    median.allreduce_seconds[job] = MedianFigure(
        runs, [&name = job](const RunFigures& run) { return run.allreduce_seconds.at(name); });
  }
  return median;
}

std::string ReportJson(const Report& report) {
  io::JsonWriter json;
  json.BeginObject();
  json.Key("fabric").String(report.fabric);
  json.Key("link_mbps").Double(report.link_mbps);
  json.Key("seeds").Integer(report.seeds);
  json.Key("runs").BeginArray();
  for (const RunFigures& run : report.runs) WriteRun(json, run);
  json.EndArray();
  json.Key("ideal").BeginArray();
  for (const IdealFigures& ideal : report.ideal) {
    json.BeginObject();
    json.Key("name").String(ideal.name);
    json.Key("slowest_flow_seconds").Double(ideal.slowest_flow_seconds);
    WriteJobs(json, ideal.allreduce_seconds);
    json.EndObject();
  }
  json.EndArray();
  json.Key("steered_flows").Integer(report.steered_flows);
  json.Key("spine_counter_mismatches").Integer(report.spine_counter_mismatches);
  WriteFailure(json, report.failure);
  json.EndObject();
  return json.Text();
}

std::string ReportTable(const Report& report) {
  std::string text = fmt::format(
      "fabric {} (spines x leaves x hosts per leaf), links of {:g} Mbit/s, medians over "
      "{}\n"
      "The traffic is TCP, with one connection for each flow, so ECMP gives each flow one path. "
      "NICs "
      "with RDMA\nand ECMP with 4 or 16 queue pairs for each flow differ: docs/evaluation.md tells "
      "for whom steering gains how much.\n\n",
      report.fabric, report.link_mbps, Count(report.seeds, "seed"));
  text += fmt::format(kRow, "workload", "scheme", "slowest flow", "median flow", "worst link",
                      "throughput", "all-reduce (phases: all communication) of each job");
  for (const IdealFigures& ideal : report.ideal) {
    for (const RunFigures& run : report.runs) {
      if (run.name != ideal.name) continue;
      text += fmt::format(kRow, run.name, run.scheme, Seconds(run.slowest_flow_seconds),
                          Seconds(run.median_flow_seconds), Count(run.max_link_flows, "flow"),
                          fmt::format("{:.0f} Mbit/s", run.throughput_mbps),
                          JobsText(run.allreduce_seconds));
    }
    text += fmt::format(kRow, ideal.name, "ideal", Seconds(ideal.slowest_flow_seconds), "",
                        Count(1, "flow"), "", JobsText(ideal.allreduce_seconds));
  }
  const FailureFigures& failure = report.failure;
  text += fmt::format(
      "\nsteered flows: {}; counted by the spines on another path than assigned: {}\n"
      "far link {} fails in the middle of a job: {} on it, {} moved in {:.3f} s, {} dead, "
      "job {}\n",
      report.steered_flows, report.spine_counter_mismatches, failure.link,
      Count(failure.flows_on_link, "flow"), failure.flows_moved, failure.seconds_to_move,
      failure.dead_flows, failure.job_completed ? "completed" : "DID NOT COMPLETE");
  if (failure.flows_recovered > 0) {
    text += fmt::format(
        "{} stood still, also those whose acknowledgements came over it; their bytes were "
        "acknowledged again at most {:.3f} s after their move\n",
        Count(failure.flows_recovered, "flow"), failure.slowest_recovery_seconds);
  }
  return text;
}

}  // namespace espalier::demo
