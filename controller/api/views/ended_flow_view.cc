#include "controller/api/views/ended_flow_view.h"

#include <algorithm>
#include <chrono>

#include "common/files/json_writer.h"
#include "controller/api/views/flow_view.h"

namespace espalier::controller {
namespace {

std::string TimeText(const Controller& controller, TimePoint time) {
  return FormatWallTime(controller.WallNow() -
                        std::chrono::duration_cast<WallTime::duration>(controller.Now() - time));
}

void WriteEnded(io::JsonWriter& json, const Controller& controller, const EndedFlow& flow) {
  const State& state = controller.state();
  json.BeginObject();
  json.Key("sequence").Integer(static_cast<std::int64_t>(flow.sequence));
  json.Key("time").String(TimeText(controller, flow.ended));
  json.Key("flow").String(state.FlowName(flow.agent, flow.local));
  json.Key("job").String(flow.job);
  json.Key("source").String(NicName(state, flow.source));
  json.Key("destination").String(NicName(state, flow.destination));
  json.Key("status").String(FlowStatusName(flow.status));
  json.Key("reason").String(ReasonName(flow.reason));
  json.Key("via").String(flow.via);
  json.Key("source_port").Integer(flow.port);
  json.Key("bytes").Integer(static_cast<std::int64_t>(flow.announced_bytes));
  json.Key("seconds").Double(std::max(0.0, SecondsOf(flow.ended - flow.started)));
  json.EndObject();
}

}  // namespace

std::string EndedFlowItem(const Controller& controller, const EndedFlow& flow) {
  io::JsonWriter json;
  WriteEnded(json, controller, flow);
  return json.Text();
}

std::optional<std::string> EndedFlowView(const Controller& controller, const std::string& name) {
  const State& state = controller.state();
  const bool by_ends = name.find('>') != std::string::npos;
  const auto& flows = state.ended_flows.flows();
  for (auto at = flows.rbegin(); at != flows.rend(); ++at) {
    const EndedFlow& flow = *at;
    const std::string own =
        by_ends ? NicName(state, flow.source) + ">" + NicName(state, flow.destination)
                : state.FlowName(flow.agent, flow.local);
    if (own != name) continue;
    io::JsonWriter json;
    json.BeginObject().Key("ended");
    WriteEnded(json, controller, flow);
    json.EndObject();
    return json.Text();
  }
  return std::nullopt;
}

}  // namespace espalier::controller
