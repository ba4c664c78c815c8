#include "controller/telemetry/collector_view.h"

#include <cmath>
#include <string_view>

#include "common/files/json_writer.h"

namespace espalier::telemetry {
namespace {

constexpr std::uint32_t kLeastSamples = 3;

std::string_view ProtocolName(std::uint8_t protocol) {
  if (protocol == 6) return "tcp";
  return protocol == 17 ? "udp" : "other";
}

}  // namespace

void WriteExporters(io::JsonWriter& json, const Collector& collector, TimePoint now) {
  json.Key("exporters").BeginArray();
  const Exporters& exporters = collector.exporters();
  for (std::size_t i = 0; i < exporters.list().size(); ++i) {
    const Exporter& exporter = exporters.list()[i];
    const Exporters::State& state = exporters.StateOf(i);
    json.BeginObject().Key("node").String(collector.topology().node(exporter.node).id);
    json.Key("agent").String(exporter.agent.ToString());
    json.Key("source").String(exporter.source.ToString());
    json.Key("silent").Bool(state.IsSilent(now));
    json.Key("age_seconds");
    if (state.heard) {
      json.Double(SecondsOf(now - *state.heard));
    } else {
      json.Null();
    }
    json.Key("datagrams").Integer(static_cast<std::int64_t>(state.datagrams));
    json.Key("lost").Integer(static_cast<std::int64_t>(state.lost));
    json.Key("restarts").Integer(static_cast<std::int64_t>(state.restarts));
    json.Key("unmapped_ports").BeginArray();
    for (const std::string& port : collector.ports().Unknown(i)) json.String(port);
    json.EndArray().EndObject();
  }
  json.EndArray();
}

std::string ShowFlows(const Collector& collector, std::size_t most, TimePoint now) {
  io::JsonWriter json;
  json.BeginObject().Key("flows").BeginArray();
  for (const SampledFlows::Flow& flow : collector.flows().Top(most, kLeastSamples, now)) {
    json.BeginObject().Key("source").String(flow.key.source.ToString());
    json.Key("destination").String(flow.key.destination.ToString());
    json.Key("protocol").String(ProtocolName(flow.key.protocol));
    json.Key("source_port").Integer(flow.key.source_port);
    json.Key("destination_port").Integer(flow.key.destination_port);
    json.Key("queue_pair").Integer(flow.key.queue_pair);
    json.Key("bps").Integer(std::llround(flow.bps));
    json.Key("error").Double(flow.error);
    json.Key("links").BeginArray();
    for (const SampledFlows::OnLink& on : flow.links) {
      json.BeginObject().Key("link").String(collector.topology().DirectionName(on.link));
      json.Key("samples").Integer(on.samples).EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Text() + "\n";
}

}  // namespace espalier::telemetry
