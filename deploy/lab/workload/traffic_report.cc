#include "deploy/lab/workload/traffic_report.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"

namespace espalier::traffic {
namespace {

constexpr std::int64_t kMax = std::int64_t{1} << 53;

SentFlow ReadSent(io::JsonFields& fields, std::string_view name) {
  SentFlow flow;
  flow.index = static_cast<std::uint32_t>(
      fields.Integer("index", 0, 0, std::numeric_limits<std::uint32_t>::max()));
  flow.start_ns = fields.Integer("start_ns", 0, 0, kMax);
  flow.end_ns = fields.Integer("end_ns", 0, 0, kMax);
  flow.bytes = fields.Integer("bytes", 0, 0, kMax);
  flow.segments = fields.Integer("segments", 0, 0, kMax);
  flow.abandoned = fields.Integer("abandoned", 0, 0, kMax);
  flow.port_conflicts = fields.Integer("port_conflicts", 0, 0, kMax);
  flow.done = fields.Bool("done", false);
  for (const io::JsonValue& item : fields.Array("ports")) {
    io::JsonFields port(item, name);
    PortUse use;
    use.port = static_cast<std::uint16_t>(port.Integer("port", 0, 0, 65'535));
    use.steered = port.Bool("steered", false);
    use.bytes = port.Integer("bytes", 0, 0, kMax);
    if (Result<void> done = port.Finish(); !done) fields.AddError("ports", done.error().message);
    flow.ports.push_back(use);
  }
  return flow;
}

ReceivedFlow ReadReceived(io::JsonFields& fields) {
  ReceivedFlow flow;
  flow.index = static_cast<std::uint32_t>(
      fields.Integer("index", 0, 0, std::numeric_limits<std::uint32_t>::max()));
  flow.bytes = fields.Integer("bytes", 0, 0, kMax);
  flow.segments = fields.Integer("segments", 0, 0, kMax);
  flow.duplicates = fields.Integer("duplicates", 0, 0, kMax);
  return flow;
}

EpochTime ReadEpoch(io::JsonFields& fields) {
  EpochTime epoch;
  constexpr int kMaxIndex = std::numeric_limits<int>::max();
  epoch.job = static_cast<int>(fields.Integer("job", 0, 0, kMaxIndex));
  epoch.ring = static_cast<int>(fields.Integer("ring", 0, 0, kMaxIndex));
  epoch.epoch = static_cast<int>(fields.Integer("epoch", 0, 0, kMaxIndex));
  epoch.start_ns = fields.Integer("start_ns", 0, 0, kMax);
  epoch.end_ns = fields.Integer("end_ns", 0, 0, kMax);
  return epoch;
}

BurstTime ReadBurst(io::JsonFields& fields) {
  BurstTime burst;
  constexpr int kMaxIndex = std::numeric_limits<int>::max();
  burst.flow = static_cast<std::uint32_t>(
      fields.Integer("flow", 0, 0, std::numeric_limits<std::uint32_t>::max()));
  burst.iteration = static_cast<int>(fields.Integer("iteration", 0, 0, kMaxIndex));
  burst.phase = static_cast<int>(fields.Integer("phase", 0, 0, kMaxIndex));
  burst.start_ns = fields.Integer("start_ns", 0, 0, kMax);
  burst.end_ns = fields.Integer("end_ns", 0, 0, kMax);
  for (const io::JsonValue& port : fields.Array("ports")) {
    std::uint16_t number = 0;
    const char* const end = port.text.data() + port.text.size();
    const auto [after, error] = std::from_chars(port.text.data(), end, number);
    if (error != std::errc() || after != end) {
      fields.AddError("ports", "a port must be 0 to 65535");
    }
    burst.ports.push_back(number);
  }
  return burst;
}

// Reads every item of an array with `read`; errors end up in `fields`.
template <typename T, typename Read>
std::vector<T> ReadAll(io::JsonFields& fields, std::string_view key, std::string_view name,
                       Read read) {
  std::vector<T> values;
  for (const io::JsonValue& item : fields.Array(key)) {
    io::JsonFields item_fields(item, name);
    values.push_back(read(item_fields));
    if (Result<void> done = item_fields.Finish(); !done) {
      fields.AddError(key, done.error().message);
    }
  }
  return values;
}

void WriteSent(io::JsonWriter& json, const SentFlow& flow) {
  json.BeginObject();
  json.Key("index").Integer(flow.index);
  json.Key("start_ns").Integer(flow.start_ns);
  json.Key("end_ns").Integer(flow.end_ns);
  json.Key("bytes").Integer(flow.bytes);
  json.Key("segments").Integer(flow.segments);
  json.Key("abandoned").Integer(flow.abandoned);
  json.Key("port_conflicts").Integer(flow.port_conflicts);
  json.Key("done").Bool(flow.done);
  json.Key("ports").BeginArray();
  for (const PortUse& use : flow.ports) {
    json.BeginObject();
    json.Key("port").Integer(use.port);
    json.Key("steered").Bool(use.steered);
    json.Key("bytes").Integer(use.bytes);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

std::string FormatHostReport(const HostReport& report) {
  io::JsonWriter json;
  json.BeginObject();
  json.Key("host").String(report.host);
  json.Key("has_agent").Bool(report.has_agent);
  json.Key("sent").BeginArray();
  for (const SentFlow& flow : report.sent) WriteSent(json, flow);
  json.EndArray().Key("received").BeginArray();
  for (const ReceivedFlow& flow : report.received) {
    json.BeginObject();
    json.Key("index").Integer(flow.index);
    json.Key("bytes").Integer(flow.bytes);
    json.Key("segments").Integer(flow.segments);
    json.Key("duplicates").Integer(flow.duplicates);
    json.EndObject();
  }
  json.EndArray().Key("epochs").BeginArray();
  for (const EpochTime& epoch : report.epochs) {
    json.BeginObject();
    json.Key("job").Integer(epoch.job);
    json.Key("ring").Integer(epoch.ring);
    json.Key("epoch").Integer(epoch.epoch);
    json.Key("start_ns").Integer(epoch.start_ns);
    json.Key("end_ns").Integer(epoch.end_ns);
    json.EndObject();
  }
  json.EndArray().Key("bursts").BeginArray();
  for (const BurstTime& burst : report.bursts) {
    json.BeginObject();
    json.Key("flow").Integer(burst.flow);
    json.Key("iteration").Integer(burst.iteration);
    json.Key("phase").Integer(burst.phase);
    json.Key("start_ns").Integer(burst.start_ns);
    json.Key("end_ns").Integer(burst.end_ns);
    json.Key("ports").BeginArray();
    for (const std::uint16_t port : burst.ports) json.Integer(port);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

Result<HostReport> ParseHostReport(std::string_view text, std::string_view name) {
  const Result<io::JsonValue> json = io::ParseJson(text, name);
  if (!json) return tl::unexpected(json.error());
  io::JsonFields fields(*json, name);
  HostReport report;
  report.host = fields.RequiredString("host");
  report.has_agent = fields.Bool("has_agent", false);
  report.sent = ReadAll<SentFlow>(fields, "sent", name,
                                  [&](io::JsonFields& item) { return ReadSent(item, name); });
  report.received = ReadAll<ReceivedFlow>(fields, "received", name, ReadReceived);
  report.epochs = ReadAll<EpochTime>(fields, "epochs", name, ReadEpoch);
  report.bursts = ReadAll<BurstTime>(fields, "bursts", name, ReadBurst);
  if (Result<void> done = fields.Finish(); !done) return Propagate(done);
  return report;
}

}  // namespace espalier::traffic
