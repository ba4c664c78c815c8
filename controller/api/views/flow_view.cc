#include "controller/api/views/flow_view.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <span>
#include <vector>

#include "common/base/enum_names.h"
#include "controller/api/views/link_view.h"

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
      {wire::PathReason::kStandby, "STANDBY"},
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

std::string_view TrustName(fabric::PortTrust trust) {
  static constexpr EnumNames<fabric::PortTrust> kTrustNames({
      {fabric::PortTrust::kPredicted, "PREDICTED"},
      {fabric::PortTrust::kVerified, "VERIFIED"},
      {fabric::PortTrust::kReverify, "REVERIFY"},
  });
  return kTrustNames.NameOf(trust);
}

std::string NicName(const State& state, const IpAddress& address) {
  const auto nic = state.topology.FindNic(address);
  return nic ? state.topology.node(*nic).id : address.ToString();
}

namespace {

// The switches on the paths of these subflows.
std::string Via(const State& state, const ShownFlow& flow,
                std::span<const ShownFlow::Subflow> subflows) {
  std::vector<std::int32_t> indices;
  for (const ShownFlow::Subflow& subflow : subflows) {
    if (subflow.path) indices.push_back(subflow.path->value());
  }
  return state.Via(flow.source_leaf, flow.destination_leaf, indices);
}

void WriteStandby(JsonWriter& json, const State& state, const ShownFlow& flow,
                  const ShownFlow::Subflow& subflow) {
  const bool has_standby = subflow.standby_path != kNoPath;
  const std::span<const std::int32_t> path(&subflow.standby_path, has_standby ? 1 : 0);
  json.Key("standby_via").String(state.Via(flow.source_leaf, flow.destination_leaf, path));
  json.Key("standby_port").Integer(subflow.standby_port);
}

void WriteSubflows(JsonWriter& json, const State& state, const ShownFlow& flow) {
  json.Key("paths").BeginArray();
  for (const ShownFlow::Subflow& subflow : flow.subflows) {
    json.BeginObject();
    json.Key("via").String(Via(state, flow, {&subflow, 1}));
    json.Key("source_port").Integer(subflow.port);
    json.Key("learning").Bool(subflow.is_learning);
    json.Key("share").Double(static_cast<double>(subflow.share) / static_cast<double>(kLoadUnit));
    WriteStandby(json, state, flow, subflow);
    json.EndObject();
  }
  json.EndArray();
}

// Writes the fields that WriteFlow and LiveFlow have in common.
void WriteIdentity(JsonWriter& json, const State& state, const ShownFlow& flow) {
  json.Key("flow").String(state.FlowName(flow.agent, flow.local));
  json.Key("job").String(state.flows.JobName(flow.job));
  json.Key("source").String(NicName(state, flow.source_address));
  json.Key("destination").String(NicName(state, flow.destination_address));
  json.Key("protocol").Integer(flow.protocol);
  json.Key("status").String(FlowStatusName(flow.status));
  json.Key("reason").String(ReasonName(flow.reason));
  json.Key("acknowledged").Bool(flow.is_acknowledged);
}

}  // namespace

Attestation AttestationOf(const Controller& controller, const ShownFlow& flow) {
  const auto slot = controller.state().flows.Find(flow.agent, flow.local);
  return slot ? controller.links().sightings.Of(*slot) : Attestation{};
}

namespace {

void WriteAttestation(JsonWriter& json, const State& state, const Attestation& attestation,
                      TimePoint now) {
  const bool is_seen = attestation.state != Attestation::State::kNotSeen;
  json.Key("attested").BeginObject();
  json.Key("state").String(AttestationName(attestation.state));
  json.Key("samples").Integer(attestation.samples);
  json.Key("via").BeginArray();
  for (const fabric::DirectedLink link : attestation.links)
    json.String(state.topology.DirectionName(link));
  json.EndArray();
  json.Key("age_seconds").Double(is_seen ? SecondsOf(now - attestation.at) : 0);
  json.EndObject();
}

}  // namespace

void WriteFlow(JsonWriter& json, const State& state, const ShownFlow& flow,
               const Attestation& attestation, TimePoint now) {
  const FlowActivity& activity = flow.activity;
  json.BeginObject();
  WriteIdentity(json, state, flow);
  json.Key("origin").String(DecisionOriginName(flow.origin));
  json.Key("source_address").String(flow.source_address.ToString());
  json.Key("destination_address").String(flow.destination_address.ToString());
  json.Key("reach").String(ReachName(flow.reach));
  const auto leaf = [&](fabric::NodeId id) {
    const bool is_known = flow.reach != Reach::kUnknownEnd;
    return is_known ? state.topology.node(id).id : std::string();
  };
  json.Key("source_leaf").String(leaf(flow.source_leaf));
  json.Key("destination_leaf").String(leaf(flow.destination_leaf));
  json.Key("via").String(Via(state, flow, flow.subflows));
  json.Key("source_port").Integer(flow.first_port());
  json.Key("own_port").Integer(flow.own_port);
  WriteSubflows(json, state, flow);
  json.Key("max_rate_bps").Integer(static_cast<std::int64_t>(flow.max_rate_bps));
  json.Key("activity").String(ActivityName(activity.state));
  json.Key("busy").Bool(activity.IsBusy());
  json.Key("parked").Bool(flow.is_parked);
  json.Key("planned").Bool(flow.is_planned);
  json.Key("transport_timeout_seconds").Double(1e-6 * flow.connection.timeout_us);
  json.Key("transport_repetitions").Integer(flow.connection.repetitions);
  json.Key("other_end").String(OtherEndName(flow.connection.other_end));
  json.Key("opposite").String(flow.connection.opposite);
  json.Key("answering").Bool(flow.connection.is_answering);
  WriteAttestation(json, state, attestation, now);
  json.Key("remaining_bytes").Integer(static_cast<std::int64_t>(activity.remaining_bytes));
  json.Key("outstanding_bytes").Integer(static_cast<std::int64_t>(activity.outstanding_bytes));
  json.Key("achieved_bps").Integer(static_cast<std::int64_t>(activity.achieved_bps));
  json.Key("age_seconds").Double(SecondsOf(now - flow.started));
  const FlowWait wait = ExplainWait(state, flow);
  json.Key("cause").String(wait.cause);
  json.Key("remedy").String(wait.remedy);
  json.EndObject();
}

namespace {

// Whether flows avoid this return path only because links of it lose packets: none is drained.
bool IsOnlyLossy(const State& state, const ShownFlow& flow, std::size_t index) {
  const auto paths = state.paths.Between(flow.destination_leaf, flow.source_leaf);
  return std::ranges::none_of(paths[index].hops, [&](DirectedLink hop) {
    return ShownState(state, hop.link) == ShownLinkState::kDrained;
  });
}

}  // namespace

void WriteReturns(JsonWriter& json, const State& state, const ReturnPaths& returns,
                  const ShownFlow& flow) {
  if (flow.protocol != wire::kProtocolTcp) return;
  static constexpr EnumNames<ReturnPaths::Fate> kFateNames({
      {ReturnPaths::Fate::kAlive, "UP"},
      {ReturnPaths::Fate::kDrained, "DRAINED"},
      {ReturnPaths::Fate::kUnknown, "UNKNOWN"},
      {ReturnPaths::Fate::kDead, "DOWN"},
  });
  json.Key("returns").BeginArray();
  for (const ShownFlow::Subflow& subflow : flow.subflows) {
    const bool has_port = subflow.path && subflow.port != 0;
    const auto path = has_port ? returns.PathOf(flow.key, subflow.port) : std::nullopt;
    const std::int32_t back = path ? path->value() : kNoPath;
    const auto fate =
        has_port ? returns.FateOf(flow.key, subflow.port) : ReturnPaths::Fate::kUnknown;
    const bool is_lossy =
        fate == ReturnPaths::Fate::kDrained && path && IsOnlyLossy(state, flow, path->Index());
    const bool is_better_known =
        has_port && returns.IsBetterPortKnown(flow.key, *subflow.path, subflow.port);
    json.BeginObject();
    json.Key("via").String(Via(state, flow, {&subflow, 1}));
    json.Key("source_port").Integer(subflow.port);
    json.Key("return_via")
        .String(state.Via(flow.destination_leaf, flow.source_leaf,
                          std::span(&back, path ? std::size_t{1} : std::size_t{0})));
    json.Key("return_state").String(is_lossy ? "LOSSY" : kFateNames.NameOf(fate));
    json.Key("better_port_known").Bool(is_better_known);
    json.EndObject();
  }
  json.EndArray();
}

std::string LiveFlow(const State& state, const ShownFlow& flow, Attestation::State attested) {
  const std::uint64_t bps = CoarseRate(flow.activity.achieved_bps);
  JsonWriter json;
  json.BeginObject();
  WriteIdentity(json, state, flow);
  json.Key("attested").String(AttestationName(attested));
  json.Key("activity").String(ActivityName(flow.activity.state));
  json.Key("achieved_bps").Integer(static_cast<std::int64_t>(bps));
  json.Key("paths").BeginArray();
  for (const ShownFlow::Subflow& subflow : flow.subflows) {
    json.BeginObject();
    json.Key("source_port").Integer(subflow.port);
    json.Key("learning").Bool(subflow.is_learning);
    json.Key("hops").BeginArray();
    if (subflow.path) {
      const auto paths = state.paths.Between(flow.source_leaf, flow.destination_leaf);
      for (const DirectedLink hop : paths[subflow.path->Index()].hops) {
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

std::uint64_t LiveFlowDigest(const ShownFlow& flow, Attestation::State attested) {
  std::uint64_t digest = 1;
  Mix(digest, static_cast<std::uint64_t>(flow.agent.value()));
  Mix(digest, flow.local.value());
  Mix(digest, static_cast<std::uint64_t>(flow.status) << 16 |
                  static_cast<std::uint64_t>(flow.reason) << 8 |
                  static_cast<std::uint64_t>(flow.activity.state) << 1 |
                  static_cast<std::uint64_t>(flow.is_acknowledged));
  Mix(digest, static_cast<std::uint64_t>(attested));
  for (const ShownFlow::Subflow& subflow : flow.subflows) {
    Mix(digest, static_cast<std::uint64_t>(subflow.port) << 1 |
                    static_cast<std::uint64_t>(subflow.is_learning));
    Mix(digest, subflow.path ? subflow.path->Index() + 1 : 0);
  }
  return digest;
}

}  // namespace espalier::controller
