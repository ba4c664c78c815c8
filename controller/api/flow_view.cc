#include "controller/api/flow_view.h"

#include <bit>
#include <chrono>

#include "common/base/enum_names.h"

namespace espalier::controller {

using fabric::DirectedLink;
using io::JsonWriter;

std::string_view ReasonName(wire::PathReason reason) {
  static constexpr EnumNames<wire::PathReason> kReasonNames({
      {wire::PathReason::kAssigned, "ASSIGNED"},
      {wire::PathReason::kPredicted, "PREDICTED"},
      {wire::PathReason::kPathDead, "PATH_DEAD"},
      {wire::PathReason::kRecomputed, "RECOMPUTED"},
      {wire::PathReason::kRemapped, "REMAPPED"},
  });
  return kReasonNames.NameOf(reason);
}

std::string_view ActivityName(wire::FlowState state) {
  static constexpr EnumNames<wire::FlowState> kActivityNames({
      {wire::FlowState::kActive, "ACTIVE"},
      {wire::FlowState::kIdle, "IDLE"},
      {wire::FlowState::kStalled, "STALLED"},
  });
  return kActivityNames.NameOf(state);
}

std::string NicName(const State& state, const IpAddress& address) {
  const auto nic = state.topology.FindNic(address);
  return nic ? state.topology.node(*nic).id : address.ToString();
}

bool IsAcknowledged(const State& state, FlowSlot slot) {
  const PushState& push = state.flows.PushOf(slot);
  const Agent& agent = state.agents.At(state.flows.At(slot).agent);
  return !push.is_dirty && push.generation <= agent.acked_generation;
}

namespace {

bool IsLearning(const State& state, const FlowWay& way) {
  const auto path = state.flow_paths.PathOf(way);
  return path && (way.port == 0 || way.port_path != *path);
}

void WriteWays(JsonWriter& json, const State& state, const Flow& flow) {
  json.Key("paths").BeginArray();
  for (const FlowWay& way : flow.ways) {
    const auto path = state.flow_paths.PathOf(way);
    const std::int32_t index = path ? path->value() : 0;
    json.BeginObject();
    json.Key("via").String(path ? state.Via(flow, {&index, 1}) : "");
    json.Key("source_port").Integer(way.port);
    json.Key("learning").Bool(IsLearning(state, way));
    json.EndObject();
  }
  json.EndArray();
}

// Of a whole flow and of a live one.
void WriteIdentity(JsonWriter& json, const State& state, FlowSlot slot) {
  const Flow& flow = state.flows.At(slot);
  json.Key("flow").String(state.FlowName(flow));
  json.Key("job").String(state.flows.JobName(flow.job));
  json.Key("source").String(NicName(state, flow.source_address));
  json.Key("destination").String(NicName(state, flow.destination_address));
  json.Key("protocol").Integer(flow.protocol);
  json.Key("status").String(FlowStatusName(flow.status));
  json.Key("reason").String(ReasonName(flow.reason));
  json.Key("acknowledged").Bool(IsAcknowledged(state, slot));
}

}  // namespace

void WriteFlow(JsonWriter& json, const State& state, FlowSlot slot, TimePoint now) {
  const Flow& flow = state.flows.At(slot);
  const FlowActivity& activity = state.flows.ActivityOf(slot);
  json.BeginObject();
  WriteIdentity(json, state, slot);
  json.Key("plan").String(PlanOriginName(flow.origin));
  json.Key("source_address").String(flow.source_address.ToString());
  json.Key("destination_address").String(flow.destination_address.ToString());
  json.Key("via").String(state.Via(flow));
  json.Key("source_port").Integer(flow.ways.empty() ? 0 : flow.ways.front().port);
  json.Key("own_port").Integer(flow.own_port);
  WriteWays(json, state, flow);
  json.Key("max_rate_bps").Integer(static_cast<std::int64_t>(flow.max_rate_bps));
  json.Key("activity").String(ActivityName(activity.state));
  json.Key("remaining_bytes").Integer(static_cast<std::int64_t>(activity.remaining_bytes));
  json.Key("outstanding_bytes").Integer(static_cast<std::int64_t>(activity.outstanding_bytes));
  json.Key("achieved_bps").Integer(static_cast<std::int64_t>(activity.achieved_bps));
  json.Key("age_seconds").Double(SecondsOf(now - flow.started));
  json.EndObject();
}

std::string LiveFlow(const State& state, FlowSlot slot) {
  const Flow& flow = state.flows.At(slot);
  const FlowActivity& activity = state.flows.ActivityOf(slot);
  JsonWriter json;
  json.BeginObject();
  WriteIdentity(json, state, slot);
  json.Key("activity").String(ActivityName(activity.state));
  json.Key("achieved_bps").Integer(static_cast<std::int64_t>(CoarseRate(activity.achieved_bps)));
  json.Key("paths").BeginArray();
  for (const FlowWay& way : flow.ways) {
    json.BeginObject();
    json.Key("source_port").Integer(way.port);
    json.Key("learning").Bool(IsLearning(state, way));
    json.Key("hops").BeginArray();
    if (const auto path = state.flow_paths.PathOf(way)) {
      for (const DirectedLink hop : state.PathsOf(flow)[path->Index()].hops) {
        json.Integer(static_cast<std::int64_t>(hop.Index()));
      }
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

std::uint64_t CoarseRate(std::uint64_t bits_per_second) {
  constexpr int kDigits = 4;
  const int width = static_cast<int>(std::bit_width(bits_per_second));
  if (width <= kDigits) return bits_per_second;
  return bits_per_second >> (width - kDigits) << (width - kDigits);
}

std::uint64_t LiveFlowDigest(const State& state, FlowSlot slot) {
  const Flow& flow = state.flows.At(slot);
  const FlowActivity& activity = state.flows.ActivityOf(slot);
  std::uint64_t digest = 1;
  Mix(digest, static_cast<std::uint64_t>(flow.agent.value()));
  Mix(digest, flow.local.value());
  Mix(digest, static_cast<std::uint64_t>(flow.status) << 16 |
                  static_cast<std::uint64_t>(flow.reason) << 8 |
                  static_cast<std::uint64_t>(activity.state) << 1 |
                  static_cast<std::uint64_t>(IsAcknowledged(state, slot)));
  for (const FlowWay& way : flow.ways) {
    const auto path = state.flow_paths.PathOf(way);
    Mix(digest, static_cast<std::uint64_t>(way.port) << 1 |
                    static_cast<std::uint64_t>(IsLearning(state, way)));
    Mix(digest, path ? path->Index() + 1 : 0);
  }
  return digest;
}

}  // namespace espalier::controller
