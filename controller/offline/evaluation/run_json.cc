#include "controller/offline/evaluation/run_json.h"

namespace espalier::offline {

void WriteRun(io::JsonWriter& json, const SchemeRun& run, std::span<const Job> jobs,
              RunDetail detail) {
  const bool tells_all = detail == RunDetail::kAll;
  json.BeginObject().Key("algorithm").String(AlgorithmName(run.scheme.algorithm));
  json.Key("split").Integer(run.scheme.split);
  json.Key("seed").Integer(static_cast<std::int64_t>(run.scheme.seed));
  json.Key("max_link_load").Double(run.outcome.max_link_load);
  json.Key("worst_overlap_load").Double(run.overlap.load.Value());
  json.Key("worst_overlap_lower_bound").Double(run.overlap.lower_bound.Value());
  json.Key("assignments").Integer(run.outcome.assignments);
  json.Key("assigned_flows").Integer(run.outcome.assigned_flows);
  json.Key("microseconds_per_assignment").Double(TypicalMicroseconds(run.assignment_seconds));
  if (tells_all) {
    json.Key("simulated_seconds").Double(run.outcome.end_seconds);
    json.Key("events").Integer(run.outcome.events);
  }
  json.Key("wall_seconds").Double(run.wall_seconds);
  json.Key("jobs").BeginArray();
  for (std::size_t j = 0; j < run.outcome.jobs.size(); ++j) {
    const JobOutcome& outcome = run.outcome.jobs[j];
    json.BeginObject().Key("job").String(jobs[j].id).Key("model").String(jobs[j].model);
    json.Key("allreduce_seconds").Double(outcome.allreduce_seconds);
    json.Key("mean_flow_completion_seconds").Double(outcome.mean_completion_seconds);
    json.Key("mean_throughput_gbps").Double(outcome.mean_throughput_gbps);
    json.Key("slowest_flow_seconds").Double(outcome.slowest_flow_seconds);
    json.Key("slowest_flow_gbps").Double(outcome.slowest_flow_gbps);
    json.Key("ports_changed_per_epoch").Double(PortsChangedPerEpoch(outcome));
    if (tells_all) {
      json.Key("phases").BeginArray();
      for (std::size_t p = 0; p < jobs[j].phases.size(); ++p) {
        json.BeginObject().Key("phase").String(jobs[j].phases[p].name);
        json.Key("communication_seconds").Double(outcome.phase_seconds[p]).EndObject();
      }
      json.EndArray();
      json.Key("flows").Integer(outcome.flows);
      json.Key("epoch_seconds").BeginArray();
      for (const double seconds : outcome.epoch_seconds) json.Double(seconds);
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace espalier::offline
