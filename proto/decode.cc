#include "proto/decode.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include "proto/decode_bodies.h"
#include "proto/decode_reports.h"
#include "proto/decode_trains.h"
#include "proto/espalier/v1/messages.pb.h"
#include "proto/limits.h"

namespace espalier::wire {
namespace {

// Decodes into the existing body, which is replaced only if it is of another kind.
template <typename To, typename From>
void DecodeInto(const From& from, Rules& rules, Body& body) {
  To* to = std::get_if<To>(&body);
  DecodeBody(from, rules, to == nullptr ? body.emplace<To>() : *to);
}

void DecodeAnyBody(const v1::Envelope& from, Rules& rules, Body& body) {
  switch (from.body_case()) {
    case v1::Envelope::kHello:
      return DecodeInto<Hello>(from.hello(), rules, body);
    case v1::Envelope::kWelcome:
      return DecodeInto<Welcome>(from.welcome(), rules, body);
    case v1::Envelope::kHeartbeat:
      return DecodeInto<Heartbeat>(from.heartbeat(), rules, body);
    case v1::Envelope::kFlowReport:
      return DecodeInto<FlowReport>(from.flow_report(), rules, body);
    case v1::Envelope::kPathPush:
      return DecodeInto<PathPush>(from.path_push(), rules, body);
    case v1::Envelope::kAck:
      return DecodeInto<Ack>(from.ack(), rules, body);
    case v1::Envelope::kProbeOrder:
      return DecodeInto<ProbeOrder>(from.probe_order(), rules, body);
    case v1::Envelope::kProbeReport:
      return DecodeInto<ProbeReport>(from.probe_report(), rules, body);
    case v1::Envelope::kPathHealth:
      return DecodeInto<PathHealth>(from.path_health(), rules, body);
    case v1::Envelope::kLinkEvent:
      return DecodeInto<LinkEvent>(from.link_event(), rules, body);
    case v1::Envelope::kRankPlan:
      return DecodeInto<RankPlan>(from.rank_plan(), rules, body);
    case v1::Envelope::kCollectiveReport:
      return DecodeInto<CollectiveReport>(from.collective_report(), rules, body);
    case v1::Envelope::kTrainOrder:
      return DecodeInto<TrainOrder>(from.train_order(), rules, body);
    case v1::Envelope::kTrainReport:
      return DecodeInto<TrainReport>(from.train_report(), rules, body);
    case v1::Envelope::BODY_NOT_SET:
      break;
  }
  rules.Fail("message", "has no body of a kind that this version knows");
}

}  // namespace

struct Decoder::Impl {
  // Otherwise protobuf writes to standard error for text that is not UTF-8, which any peer may
  // send.
  google::protobuf::LogSilencer silencer;
  v1::Envelope envelope;
  Message message;
  Rules rules;
};

Decoder::Decoder() : impl_(std::make_unique<Impl>()) {}
Decoder::~Decoder() = default;

Result<const Message*> Decoder::Decode(std::string_view bytes) {
  auto& [silencer, envelope, message, rules] = *impl_;
  rules.Reset();
  if (bytes.size() > kMaxMessageBytes) {
    rules.Fail("message",
               fmt::format("{} bytes exceed the limit of {}", bytes.size(), kMaxMessageBytes));
  } else if (!envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    rules.Fail("message", "is malformed, or contains text that is not UTF-8");
  } else {
    if (envelope.sender_instance() == 0) rules.Fail("sender_instance", "is missing");
    message.sender_instance = envelope.sender_instance();
    DecodeAnyBody(envelope, rules, message.body);
  }
  if (rules.ok()) return &message;
  // Four megabytes of wrong bytes can expand to far more memory than a valid message needs, so the
  // memory is released.
  envelope = v1::Envelope();
  message = Message();
  return tl::unexpected<Error>(rules.error());
}

}  // namespace espalier::wire
