#include "tests/studies/lab/phases_report.h"

#include <fmt/format.h>

#include "common/files/json_writer.h"

namespace espalier::demo {
namespace {

void WriteCommunication(io::JsonWriter& json, const std::map<std::string, double>& seconds) {
  json.Key("jobs").BeginArray();
  for (const auto& [job, of_job] : seconds) {
    json.BeginObject();
    json.Key("job").String(job);
    json.Key("communication_seconds").Double(of_job);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string PhasesJson(const PhasesComparison& comparison) {
  io::JsonWriter json;
  json.BeginObject();
  json.Key("fabric").String("4x4x4");
  json.Key("link_mbps").Double(comparison.link_mbps);
  json.Key("seeds").Integer(comparison.seeds);
  json.Key("concurrent_jobs").Integer(comparison.shape.jobs);
  json.Key("queue_pairs").Integer(comparison.shape.queue_pairs);
  json.Key("jitter_percent").Integer(comparison.shape.jitter_percent);
  json.Key("iterations").Integer(comparison.shape.iterations);
  json.Key("ideal").BeginObject();
  json.Key("slowest_burst_seconds").Double(comparison.ideal.slowest_flow_seconds);
  WriteCommunication(json, comparison.ideal.allreduce_seconds);
  json.EndObject();
  json.Key("runs").BeginArray();
  for (const auto& [name, result] : comparison.schemes) {
    const RunFigures median = MedianOf(result.runs);
    json.BeginObject();
    json.Key("scheme").String(name);
    json.Key("slowest_burst_seconds").Double(median.slowest_flow_seconds);
    json.Key("max_link_flows").Double(median.max_link_flows);
    json.Key("ports_changed_per_iteration").Double(median.ports_changed_per_iteration);
    json.Key("steered_ports").Integer(result.steered_ports);
    json.Key("spine_counter_mismatches").Integer(result.mismatches);
    WriteCommunication(json, median.allreduce_seconds);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

std::string PhasesTable(const PhasesComparison& comparison) {
  constexpr const char* kRow = "{:<11} {:>13} {:>11} {:>14} {:>10}  {}\n";
  const auto jobs_text = [](const std::map<std::string, double>& jobs) {
    std::string text;
    for (const auto& [job, seconds] : jobs) text += fmt::format("{} {:.3f} s  ", job, seconds);
    return text;
  };
  std::string text = fmt::format(kRow, "scheme", "slowest burst", "worst link", "ports changed",
                                 "mismatches", "communication in an iteration");
  for (const auto& [name, result] : comparison.schemes) {
    const RunFigures median = MedianOf(result.runs);
    text += fmt::format(
        kRow, name, fmt::format("{:.3f} s", median.slowest_flow_seconds),
        fmt::format("{:g} flow{}", median.max_link_flows, median.max_link_flows == 1 ? "" : "s"),
        fmt::format("{:.1f}", median.ports_changed_per_iteration), result.mismatches,
        jobs_text(median.allreduce_seconds));
  }
  text += fmt::format(kRow, "ideal", fmt::format("{:.3f} s", comparison.ideal.slowest_flow_seconds),
                      "1 flow", "", "", jobs_text(comparison.ideal.allreduce_seconds));
  return text;
}

}  // namespace espalier::demo
