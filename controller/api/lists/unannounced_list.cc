#include "controller/api/lists/unannounced_list.h"

#include "common/files/json_writer.h"
#include "controller/api/views/flow_view.h"

namespace espalier::controller {

std::string UnannouncedFlows(const Controller& controller) {
  const State& state = controller.state();
  io::JsonWriter json;
  json.BeginObject().Key("flows").BeginArray();
  for (const Sightings::Unannounced* of : controller.links().sightings.ListUnannounced()) {
    const SightingReport::Seen& seen = of->seen;
    json.BeginObject();
    json.Key("source").String(NicName(state, seen.source));
    json.Key("destination").String(NicName(state, seen.destination));
    json.Key("source_address").String(seen.source.ToString());
    json.Key("destination_address").String(seen.destination.ToString());
    json.Key("protocol").Integer(seen.protocol);
    json.Key("source_port").Integer(seen.source_port);
    json.Key("destination_port").Integer(seen.destination_port);
    json.Key("queue_pair").Integer(seen.queue_pair);
    json.Key("bps").Integer(seen.bps);
    json.Key("error").Double(seen.error);
    std::string via;
    for (const SightingReport::OnLink& on : seen.links) {
      if (!state.topology.IsFabricLink(on.link.link)) continue;
      via += (via.empty() ? "" : " ") + state.topology.DirectionName(on.link);
    }
    json.Key("via").String(via);
    json.Key("age_seconds").Double(SecondsOf(controller.Now() - of->last));
    json.Key("seen_for_seconds").Double(SecondsOf(of->last - of->first));
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace espalier::controller
