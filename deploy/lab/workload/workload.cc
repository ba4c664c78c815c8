#include "deploy/lab/workload/workload.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"

namespace espalier::traffic {
namespace {

// Small enough that the sum over a million epochs of a ring fits into 63 bits.
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMaxSegment = 1'000'000;

double Seconds(io::JsonFields& fields, std::string_view key) {
  const std::optional<std::string> text = fields.Decimal(key);
  if (!text) return 0;
  char* end = nullptr;
  const double value = std::strtod(text->c_str(), &end);
  if (*end != '\0' || !std::isfinite(value) || value < 0 || value > 86'400) {
    fields.AddError(key, "the value must be 0 to 86400 seconds");
    return 0;
  }
  return value;
}

class Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  Result<Workload> Read(const io::JsonValue& root) {
    Workload workload;
    io::JsonFields fields(root, name_);
    workload.segment_bytes =
        fields.Integer("segment_bytes", workload.segment_bytes, 1, kMaxSegment);
    for (const io::JsonValue& item : fields.Array("flows")) {
      Result<SingleFlow> flow = ReadFlow(item);
      if (!flow) return Propagate(flow);
      workload.flows.push_back(std::move(*flow));
    }
    for (const io::JsonValue& item : fields.Array("jobs")) {
      Result<Job> job = ReadJob(item);
      if (!job) return Propagate(job);
      workload.jobs.push_back(std::move(*job));
    }
    for (const io::JsonValue& item : fields.Array("phased_jobs")) {
      Result<PhasedJob> job = ReadPhasedJob(item);
      if (!job) return Propagate(job);
      workload.phased_jobs.push_back(std::move(*job));
    }
    if (Result<void> done = fields.Finish(); !done) return Propagate(done);
    return workload;
  }

 private:
  Result<SingleFlow> ReadFlow(const io::JsonValue& item) {
    SingleFlow flow;
    io::JsonFields fields(item, name_);
    flow.id = fields.RequiredString("id");
    flow.job = fields.String("job");
    flow.source = fields.RequiredString("source");
    flow.destination = fields.RequiredString("destination");
    flow.bytes = fields.Integer("bytes", 0, 1, kMaxBytes);
    flow.port = static_cast<std::uint16_t>(fields.Integer("port", 0, 0, 65'535));
    flow.paths = static_cast<int>(fields.Integer("paths", 1, 1, kMaxPaths));
    flow.start_seconds = Seconds(fields, "start_seconds");
    flow.announced = fields.Bool("announced", true);
    const std::string protocol = fields.String("protocol", "tcp");
    if (protocol != "tcp" && protocol != "udp")
      fields.AddError("protocol", "the protocol must be tcp or udp");
    if (protocol == "udp") {
      flow.protocol = Protocol::kUdp;
      flow.rate.value = fields.Integer("rate_bps", 0, 1'000, 10'000'000'000);
      if (!fields.Has("rate_bps")) fields.AddError("protocol", "UDP needs rate_bps (add it)");
      if (flow.paths > 1) fields.AddError("paths", "a UDP flow has one path (remove the field)");
    }
    if (!fields.Has("bytes")) fields.AddError("id", "the flow has no bytes (add \"bytes\")");
    if (flow.source == flow.destination)
      fields.AddError("destination", "the destination is the source (name another host)");
    if (!ids_.insert(flow.id).second) fields.AddError("id", "the id is used twice (rename one)");
    if (Result<void> done = fields.Finish(); !done) return Propagate(done);
    return flow;
  }

  Result<Job> ReadJob(const io::JsonValue& item) {
    Job job;
    io::JsonFields fields(item, name_);
    job.id = fields.RequiredString("id");
    job.epochs = static_cast<int>(fields.Integer("epochs", 1, 1, 1'000'000));
    job.compute_seconds = Seconds(fields, "compute_seconds");
    for (const io::JsonValue& ring_item : fields.Array("rings")) {
      Result<Ring> ring = ReadRing(ring_item);
      if (!ring) return Propagate(ring);
      job.rings.push_back(std::move(*ring));
    }
    if (job.rings.empty()) fields.AddError("rings", "a job needs at least one ring");
    if (!ids_.insert(job.id).second) fields.AddError("id", "the id is used twice (rename one)");
    if (Result<void> done = fields.Finish(); !done) return Propagate(done);
    return job;
  }

  Result<Ring> ReadRing(const io::JsonValue& item) {
    Ring ring;
    io::JsonFields fields(item, name_);
    ring.bytes = fields.Integer("bytes", 0, 1, kMaxBytes);
    if (!fields.Has("bytes")) fields.AddError("bytes", "missing");
    std::set<std::string> seen;
    for (const io::JsonValue& host : fields.Array("hosts")) {
      if (host.kind != io::JsonValue::Kind::kString || !seen.insert(host.text).second) {
        fields.AddError("hosts", "the hosts of a ring must be different host names");
        break;
      }
      ring.hosts.push_back(host.text);
    }
    if (ring.hosts.size() < 2) fields.AddError("hosts", "a ring needs at least two hosts");
    if (Result<void> done = fields.Finish(); !done) return Propagate(done);
    return ring;
  }

  Result<PhasedJob> ReadPhasedJob(const io::JsonValue& item) {
    PhasedJob job;
    io::JsonFields fields(item, name_);
    job.id = fields.RequiredString("id");
    job.job = fields.String("job");
    job.iterations = static_cast<int>(fields.Integer("iterations", 1, 1, 1'000'000));
    job.period_seconds = Seconds(fields, "period_seconds");
    job.jitter_percent = static_cast<int>(fields.Integer("jitter_percent", 0, 0, 100));
    job.queue_pairs = static_cast<int>(fields.Integer("queue_pairs", 1, 1, kMaxPaths));
    job.announces_remaining = fields.Bool("announces_remaining", false);
    for (const io::JsonValue& phase_item : fields.Array("phases")) {
      Result<Phase> phase = ReadPhase(phase_item);
      if (!phase) return Propagate(phase);
      job.phases.push_back(std::move(*phase));
    }
    if (job.phases.empty()) fields.AddError("phases", "a phased job needs at least one phase");
    if (!ids_.insert(job.id).second) fields.AddError("id", "the id is used twice (rename one)");
    if (Result<void> done = fields.Finish(); !done) return Propagate(done);
    return job;
  }

  Result<Phase> ReadPhase(const io::JsonValue& item) {
    Phase phase;
    io::JsonFields fields(item, name_);
    phase.name = fields.String("name");
    phase.compute_seconds = Seconds(fields, "compute_seconds");
    std::set<std::pair<std::string, std::string>> pairs;
    for (const io::JsonValue& burst_item : fields.Array("bursts")) {
      Result<Burst> burst = ReadBurst(burst_item);
      if (!burst) return Propagate(burst);
      if (!pairs.insert({burst->source, burst->destination}).second) {
        fields.AddError("bursts", fmt::format("{} sends to {} twice in one phase (add the bytes)",
                                              burst->source, burst->destination));
      }
      phase.bursts.push_back(std::move(*burst));
    }
    if (phase.bursts.empty()) fields.AddError("bursts", "a phase needs at least one burst");
    if (Result<void> done = fields.Finish(); !done) return Propagate(done);
    return phase;
  }

  Result<Burst> ReadBurst(const io::JsonValue& item) {
    Burst burst;
    io::JsonFields fields(item, name_);
    burst.source = fields.RequiredString("source");
    burst.destination = fields.RequiredString("destination");
    burst.bytes = fields.Integer("bytes", 0, 1, kMaxBytes);
    if (!fields.Has("bytes")) fields.AddError("source", "the burst has no bytes (add \"bytes\")");
    if (burst.source == burst.destination)
      fields.AddError("destination", "the destination is the source (name another host)");
    if (Result<void> done = fields.Finish(); !done) return Propagate(done);
    return burst;
  }

  const std::string name_;
  std::set<std::string> ids_;
};

void WriteFlow(io::JsonWriter& json, const SingleFlow& flow) {
  json.BeginObject();
  json.Key("id").String(flow.id);
  json.Key("job").String(flow.job);
  json.Key("source").String(flow.source);
  json.Key("destination").String(flow.destination);
  json.Key("bytes").Integer(flow.bytes);
  json.Key("port").Integer(flow.port);
  if (flow.protocol == Protocol::kUdp) {
    json.Key("protocol").String("udp");
    json.Key("rate_bps").Integer(flow.rate.value);
  }
  if (flow.paths > 1) json.Key("paths").Integer(flow.paths);
  if (flow.start_seconds > 0) json.Key("start_seconds").Double(flow.start_seconds);
  if (!flow.announced) json.Key("announced").Bool(false);
  json.EndObject();
}

void WriteJob(io::JsonWriter& json, const Job& job) {
  json.BeginObject();
  json.Key("id").String(job.id);
  json.Key("epochs").Integer(job.epochs);
  json.Key("compute_seconds").Double(job.compute_seconds);
  json.Key("rings").BeginArray();
  for (const Ring& ring : job.rings) {
    json.BeginObject().Key("hosts").BeginArray();
    for (const std::string& host : ring.hosts) json.String(host);
    json.EndArray().Key("bytes").Integer(ring.bytes).EndObject();
  }
  json.EndArray().EndObject();
}

void WritePhasedJob(io::JsonWriter& json, const PhasedJob& job) {
  json.BeginObject();
  json.Key("id").String(job.id);
  json.Key("job").String(job.job);
  json.Key("iterations").Integer(job.iterations);
  json.Key("period_seconds").Double(job.period_seconds);
  json.Key("jitter_percent").Integer(job.jitter_percent);
  json.Key("queue_pairs").Integer(job.queue_pairs);
  json.Key("announces_remaining").Bool(job.announces_remaining);
  json.Key("phases").BeginArray();
  for (const Phase& phase : job.phases) {
    json.BeginObject();
    json.Key("name").String(phase.name);
    json.Key("compute_seconds").Double(phase.compute_seconds);
    json.Key("bursts").BeginArray();
    for (const Burst& burst : phase.bursts) {
      json.BeginObject();
      json.Key("source").String(burst.source);
      json.Key("destination").String(burst.destination);
      json.Key("bytes").Integer(burst.bytes);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
}

// One flow for each pair of hosts of a phased job, in the order in which the phases name them.
std::vector<WorkloadFlow> FlowsOfPhasedJob(const PhasedJob& job, int job_index) {
  std::vector<WorkloadFlow> flows;
  std::map<std::string, std::size_t> places;
  for (const Phase& phase : job.phases) {
    for (const Burst& burst : phase.bursts) {
      const std::string id = fmt::format("{}/{}>{}", job.id, burst.source, burst.destination);
      const auto [place, is_new] = places.try_emplace(id, flows.size());
      if (is_new) {
        flows.push_back({.id = id,
                         .job = job.job.empty() ? job.id : job.job,
                         .source = burst.source,
                         .destination = burst.destination,
                         .announced_bytes = job.announces_remaining ? burst.bytes : 0,
                         .paths = job.queue_pairs,
                         .phased_job_index = job_index,
                         .announces_remaining = job.announces_remaining});
      }
      flows[place->second].bytes += burst.bytes * job.iterations;
    }
  }
  return flows;
}

}  // namespace

Result<Workload> ParseWorkload(std::string_view text, std::string_view name) {
  const Result<io::JsonValue> json = io::ParseJson(text, name);
  if (!json) return tl::unexpected(json.error());
  return Reader(name).Read(*json);
}

std::string FormatWorkload(const Workload& workload) {
  io::JsonWriter json(/*pretty=*/true);
  json.BeginObject();
  json.Key("segment_bytes").Integer(workload.segment_bytes);
  json.Key("flows").BeginArray();
  for (const SingleFlow& flow : workload.flows) WriteFlow(json, flow);
  json.EndArray().Key("jobs").BeginArray();
  for (const Job& job : workload.jobs) WriteJob(json, job);
  json.EndArray().Key("phased_jobs").BeginArray();
  for (const PhasedJob& job : workload.phased_jobs) WritePhasedJob(json, job);
  json.EndArray().EndObject();
  return json.Text();
}

std::int64_t ChunkBytes(const Ring& ring) {
  const auto hosts = static_cast<std::int64_t>(ring.hosts.size());
  return (ring.bytes + hosts - 1) / hosts;
}

std::vector<WorkloadFlow> ListWorkloadFlows(const Workload& workload) {
  std::vector<WorkloadFlow> plans;
  const auto add = [&](WorkloadFlow plan) {
    plan.index = static_cast<std::uint32_t>(plans.size());
    plans.push_back(std::move(plan));
  };
  for (const SingleFlow& flow : workload.flows) {
    add({.id = flow.id,
         .job = flow.job,
         .source = flow.source,
         .destination = flow.destination,
         .protocol = flow.protocol,
         .bytes = flow.bytes,
         .announced_bytes = flow.bytes,
         .port = flow.port,
         .rate = flow.rate,
         .paths = flow.paths,
         .start_seconds = flow.start_seconds,
         .announced = flow.announced});
  }
  for (std::size_t j = 0; j < workload.jobs.size(); ++j) {
    const Job& job = workload.jobs[j];
    for (std::size_t r = 0; r < job.rings.size(); ++r) {
      const Ring& ring = job.rings[r];
      const std::int64_t epoch_bytes = ChunkBytes(ring) * RingRounds(ring.hosts.size());
      for (std::size_t i = 0; i < ring.hosts.size(); ++i) {
        const std::string& next = ring.hosts[(i + 1) % ring.hosts.size()];
        add({.id = fmt::format("{}/{}/{}>{}", job.id, r, ring.hosts[i], next),
             .job = job.id,
             .source = ring.hosts[i],
             .destination = next,
             .bytes = epoch_bytes * job.epochs,
             .announced_bytes = epoch_bytes,
             .job_index = static_cast<int>(j),
             .ring_index = static_cast<int>(r),
             .position = static_cast<int>(i)});
      }
    }
  }
  for (std::size_t j = 0; j < workload.phased_jobs.size(); ++j) {
    for (WorkloadFlow& flow : FlowsOfPhasedJob(workload.phased_jobs[j], static_cast<int>(j))) {
      add(std::move(flow));
    }
  }
  return plans;
}

}  // namespace espalier::traffic
