#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "proto/decode.h"
#include "proto/encode.h"
#include "proto/espalier/v1/messages.pb.h"
#include "proto/limits.h"
#include "tests/proto/examples.h"

// Tests every rule of the decoder: a valid example of the message, one change in it, and the
// resulting error.
namespace espalier::wire {
namespace {

using ::testing::HasSubstr;

// Returns the example with this kind of body, in protobuf form.
template <typename Kind>
v1::Envelope ExampleOf() {
  v1::Envelope envelope;
  for (const Message& message : MakeExamples()) {
    if (std::holds_alternative<Kind>(message.body)) envelope.ParseFromString(Encode(message));
  }
  return envelope;
}

std::string DecodeError(const v1::Envelope& envelope) {
  Decoder decoder;
  const auto decoded = decoder.Decode(envelope.SerializeAsString());
  if (decoded.has_value()) return "none";
  EXPECT_EQ(decoded.error().code, ErrorCode::kInvalidArgument);
  return decoded.error().message;
}

template <typename PbBody>
struct Case {
  const char* error;
  std::function<void(PbBody&)> spoil;
};

template <typename Kind, typename PbBody>
void ExpectErrors(PbBody* (v1::Envelope::*mutable_body)(), const std::vector<Case<PbBody>>& cases) {
  const v1::Envelope good = ExampleOf<Kind>();
  EXPECT_EQ(DecodeError(good), "none");
  for (const auto& [error, spoil] : cases) {
    v1::Envelope bad = good;
    spoil(*(bad.*mutable_body)());
    EXPECT_THAT(DecodeError(bad), HasSubstr(error));
  }
}

const std::string kLongName(kMaxNameBytes + 1, 'n');
const std::string kLongText(kMaxTextBytes + 1, 't');
const std::string kNone(16, '\0');
constexpr std::uint64_t kHuge = std::uint64_t{1} << 63U;

TEST(Rules, RefuseWhatIsNoMessage) {
  Decoder decoder;
  EXPECT_THAT(decoder.Decode("\xff\xff").error().message, HasSubstr("malformed"));
  EXPECT_THAT(decoder.Decode("").error().message, HasSubstr("sender_instance: is missing"));
  EXPECT_THAT(decoder.Decode(std::string(kMaxMessageBytes + 1, 'x')).error().message,
              HasSubstr("4194305 bytes exceed the limit of 4194304"));
  v1::Envelope envelope;
  envelope.set_sender_instance(1);
  EXPECT_THAT(DecodeError(envelope), HasSubstr("message: has no body"));
}

TEST(Rules, OfHello) {
  using Pb = v1::Hello;
  ExpectErrors<Hello, Pb>(
      &v1::Envelope::mutable_hello,
      {{"hello.name: is missing", [](Pb& m) { m.clear_name(); }},
       {"hello.name: 256 bytes exceed the limit of 255", [](Pb& m) { m.set_name(kLongName); }},
       {"hello.name: \"a?b\" has characters", [](Pb& m) { m.set_name("a\nb"); }},
       {"hello.features[1]: is missing", [](Pb& m) { m.set_features(1, ""); }},
       {"hello.features: 257 entries exceed the limit of 256",
        [](Pb& m) {
          while (m.features_size() <= 256) m.add_features("f");
        }},
       {"hello.nics: 257 entries",
        [](Pb& m) {
          while (m.nics_size() <= 256) m.add_nics();
        }},
       {"hello.nics[1].address: 5 bytes are no address",
        [](Pb& m) { m.mutable_nics(1)->set_address("12345"); }},
       {"hello.nics[0].address: 0 bytes are no address",
        [](Pb& m) { m.mutable_nics(0)->clear_address(); }},
       {"hello.nics[0].address: must not be the unspecified",
        [](Pb& m) { m.mutable_nics(0)->set_address(kNone); }},
       {"hello.nics[1].address: occurs twice",
        [](Pb& m) { m.mutable_nics(1)->set_address(m.nics(0).address()); }},
       {"hello.nics[1].device: \"?\"", [](Pb& m) { m.mutable_nics(1)->set_device("\x7f"); }}});
}

TEST(Rules, OfWelcome) {
  using Pb = v1::Welcome;
  ExpectErrors<Welcome, Pb>(
      &v1::Envelope::mutable_welcome,
      {{"welcome.reason: 4097 bytes exceed the limit", [](Pb& m) { m.set_reason(kLongText); }},
       {"welcome.heartbeat_interval_us: 0 is not in 1..",
        [](Pb& m) { m.clear_heartbeat_interval_us(); }},
       {"welcome.heartbeat_interval_us: 92", [](Pb& m) { m.set_heartbeat_interval_us(kHuge); }},
       {"welcome.features[0]", [](Pb& m) { m.set_features(0, "\t"); }}});
  v1::Envelope refusal = ExampleOf<Welcome>();
  refusal.mutable_welcome()->set_accepted(false);
  refusal.mutable_welcome()->clear_heartbeat_interval_us();
  EXPECT_EQ(DecodeError(refusal), "none");
}

TEST(Rules, OfTheTablesAndEndsOfAFlowReport) {
  using Pb = v1::FlowReport;
  ExpectErrors<FlowReport, Pb>(
      &v1::Envelope::mutable_flow_report,
      {{"flow_report.jobs[1]: 256 bytes", [](Pb& m) { m.set_jobs(1, kLongName); }},
       {"flow_report.jobs: 16385 entries",
        [](Pb& m) {
          while (m.jobs_size() <= 16384) m.add_jobs("j");
        }},
       {"flow_report.addresses[2]: 1 bytes are no address", [](Pb& m) { m.set_addresses(2, "x"); }},
       {"flow_report.addresses: 16385 entries",
        [](Pb& m) {
          while (m.addresses_size() <= 16384) m.add_addresses("1234");
        }},
       {"flow_report.ended: 3 occurs twice", [](Pb& m) { m.set_ended(1, 3); }},
       {"flow_report.ended: 16385 entries", [](Pb& m) { m.mutable_ended()->Resize(16385, 1); }},
       {"flow_report.sent_us: 92", [](Pb& m) { m.set_sent_us(kHuge); }}});
}

TEST(Rules, OfOpenedFlows) {
  using Pb = v1::OpenedFlows;
  const std::vector<Case<Pb>> cases = {
      {"opened.job: 1 entries, but flow_report.opened.id has 2",
       [](Pb& m) { m.mutable_job()->RemoveLast(); }},
      {"opened.source: 3 entries", [](Pb& m) { m.add_source(0); }},
      {"opened.destination: 3 entries", [](Pb& m) { m.add_destination(0); }},
      {"opened.protocol: 0 entries", [](Pb& m) { m.clear_protocol(); }},
      {"opened.destination_port: 0 entries", [](Pb& m) { m.clear_destination_port(); }},
      {"opened.local_qpn: 0 entries", [](Pb& m) { m.clear_local_qpn(); }},
      {"opened.remote_qpn: 0 entries", [](Pb& m) { m.clear_remote_qpn(); }},
      {"opened.max_paths: 0 entries", [](Pb& m) { m.clear_max_paths(); }},
      {"opened.movable: 0 entries", [](Pb& m) { m.clear_movable(); }},
      {"opened.age_us: 0 entries", [](Pb& m) { m.clear_age_us(); }},
      {"opened.source_port: 0 entries", [](Pb& m) { m.clear_source_port(); }},
      {"opened.timeout_us: 1 entries", [](Pb& m) { m.add_timeout_us(1); }},
      {"opened.repetitions: 3 entries",
       [](Pb& m) {
         m.mutable_timeout_us()->Resize(2, 1);
         m.mutable_repetitions()->Resize(3, 1);
       }},
      {"opened.steered: 0 entries", [](Pb& m) { m.clear_steered(); }},
      {"opened.job: 2 entries, but flow_report.opened.id has 0", [](Pb& m) { m.clear_id(); }},
      {"opened.id: 16385 entries", [](Pb& m) { m.mutable_id()->Resize(16385, 1); }},
      {"opened.id: 12 occurs twice", [](Pb& m) { m.set_id(0, 12); }},
      {"opened.job[1]: index 2 beyond 2 jobs", [](Pb& m) { m.set_job(1, 2); }},
      {"opened.source[0]: index 9 beyond 3 addresses", [](Pb& m) { m.set_source(0, 9); }},
      {"opened.destination[1]: index 4294967295 beyond 3 addresses",
       [](Pb& m) { m.set_destination(1, ~0U); }},
      {"opened.protocol[1]: 1 is neither 17", [](Pb& m) { m.set_protocol(1, 1); }},
      {"opened.protocol[0]: 273 is", [](Pb& m) { m.set_protocol(0, 273); }},
      {"opened.destination_port[0]: 0 is not in 1..65535",
       [](Pb& m) { m.set_destination_port(0, 0); }},
      {"opened.destination_port[1]: 65536", [](Pb& m) { m.set_destination_port(1, 65536); }},
      {"opened.local_qpn[1]: 16777216", [](Pb& m) { m.set_local_qpn(1, 1U << 24U); }},
      {"opened.remote_qpn[0]: 16777216", [](Pb& m) { m.set_remote_qpn(0, 1U << 24U); }},
      {"opened.max_paths[1]: 0 is not in 1..64", [](Pb& m) { m.set_max_paths(1, 0); }},
      {"opened.max_paths[1]: 65 is", [](Pb& m) { m.set_max_paths(1, 65); }},
      {"opened.age_us[0]: 92", [](Pb& m) { m.set_age_us(0, kHuge); }},
      {"opened.source_port[1]: 65536 is", [](Pb& m) { m.set_source_port(1, 65536); }},
      {"opened.path_count: 3 entries, but flow_report.opened.id has 2",
       [](Pb& m) { m.add_path_count(0); }},
      {"opened.keeps_rate: 1 entries, but flow_report.opened.id has 2",
       [](Pb& m) { m.add_keeps_rate(true); }},
      {"opened.keeps_weights: 1 entries, but flow_report.opened.id has 2",
       [](Pb& m) { m.add_keeps_weights(true); }},
      {"opened.path_fixed: 1 entries, but flow_report.opened.id has 2",
       [](Pb& m) { m.add_path_fixed(true); }},
      {"opened.path_count[1]: 65 is not in 0..64", [](Pb& m) { m.set_path_count(1, 65); }},
      {"opened.path_port[2]: 65536 is", [](Pb& m) { m.set_path_port(2, 65536); }},
      {"opened.path_port (entries): 3 is not in 4..4", [](Pb& m) { m.set_path_count(1, 1); }},
      {"opened.path_port (entries): 3 is not in 0..0", [](Pb& m) { m.clear_path_count(); }}};
  std::vector<Case<v1::FlowReport>> in_report;
  for (const auto& [error, spoil] : cases) {
    in_report.push_back(
        {error, [spoil = spoil](v1::FlowReport& m) { spoil(*m.mutable_opened()); }});
  }
  ExpectErrors<FlowReport>(&v1::Envelope::mutable_flow_report, in_report);
}

TEST(Rules, OfProgress) {
  using Pb = v1::FlowProgress;
  const std::vector<Case<Pb>> cases = {
      {"progress.remaining_bytes: 0 entries, but flow_report.progress.id has 2",
       [](Pb& m) { m.clear_remaining_bytes(); }},
      {"progress.outstanding_bytes: 3", [](Pb& m) { m.add_outstanding_bytes(1); }},
      {"progress.achieved_bps: 0 entries", [](Pb& m) { m.clear_achieved_bps(); }},
      {"progress.state: 0 entries", [](Pb& m) { m.clear_state(); }},
      {"progress.id: 16385 entries", [](Pb& m) { m.mutable_id()->Resize(16385, 1); }},
      {"progress.id: 11 occurs twice", [](Pb& m) { m.set_id(1, 11); }},
      {"progress.remaining_bytes[1]: 92", [](Pb& m) { m.set_remaining_bytes(1, kHuge); }},
      {"progress.outstanding_bytes[0]: 92", [](Pb& m) { m.set_outstanding_bytes(0, kHuge); }},
      {"progress.achieved_bps[0]: 92", [](Pb& m) { m.set_achieved_bps(0, kHuge); }},
      {"progress.state[1]: 3 is not in 0..2", [](Pb& m) { m.set_state(1, 3); }},
      {"progress.sent_bytes: 3 entries", [](Pb& m) { m.add_sent_bytes(1); }},
      {"progress.sent_bytes[1]: 92", [](Pb& m) { m.set_sent_bytes(1, kHuge); }},
      {"progress.edges: 0 entries", [](Pb& m) { m.clear_edges(); }},
      {"progress.edge_age_us: 0 entries", [](Pb& m) { m.clear_edge_age_us(); }},
      {"progress.duty_permille: 3 entries", [](Pb& m) { m.add_duty_permille(1); }},
      {"progress.edge_age_us[0]: 92", [](Pb& m) { m.set_edge_age_us(0, kHuge); }},
      {"progress.duty_permille[1]: 1001 is not in 0..1000",
       [](Pb& m) { m.set_duty_permille(1, 1001); }}};
  std::vector<Case<v1::FlowReport>> in_report;
  for (const auto& [error, spoil] : cases) {
    in_report.push_back(
        {error, [spoil = spoil](v1::FlowReport& m) { spoil(*m.mutable_progress()); }});
  }
  ExpectErrors<FlowReport>(&v1::Envelope::mutable_flow_report, in_report);
}

TEST(Rules, OfPathPush) {
  using Pb = v1::PathPush;
  ExpectErrors<PathPush, Pb>(
      &v1::Envelope::mutable_path_push,
      {{"path_push.sets[1].paths (entries): 0 is not in 1..64",
        [](Pb& m) { m.mutable_sets(1)->clear_paths(); }},
       {"path_push.sets[1].paths (entries): 65",
        [](Pb& m) {
          while (m.sets(1).paths_size() <= 64) m.mutable_sets(1)->add_paths();
        }},
       {"path_push.sets[0].max_rate_bps: 92",
        [](Pb& m) { m.mutable_sets(0)->set_max_rate_bps(kHuge); }},
       {"path_push.sets[0].reason: 6 is not in 0..5",
        [](Pb& m) { m.mutable_sets(0)->set_reason(static_cast<v1::PathReason>(6)); }},
       {"path_push.sets[0].reason: 18446744073709551615",
        [](Pb& m) { m.mutable_sets(0)->set_reason(static_cast<v1::PathReason>(-1)); }},
       {"path_push.sets[0].paths[0].source_port: 0 is not in 1..65535",
        [](Pb& m) { m.mutable_sets(0)->mutable_paths(0)->set_source_port(0); }},
       {"path_push.sets[0].paths[1].source_port: 65536 is not in 0..65535",
        [](Pb& m) { m.mutable_sets(0)->mutable_paths(1)->set_source_port(65536); }},
       {"path_push.sets[0].paths[0].weight: 0",
        [](Pb& m) { m.mutable_sets(0)->mutable_paths(0)->set_weight(0); }},
       {"path_push.sets[0].paths[1].encoding (bytes): 256",
        [](Pb& m) { m.mutable_sets(0)->mutable_paths(1)->set_encoding(kLongName); }},
       {"path_push.sets[0].paths[1].links: 17 entries exceed",
        [](Pb& m) { m.mutable_sets(0)->mutable_paths(1)->mutable_links()->Resize(17, 1); }},
       {"path_push.sets.flow: 11 occurs twice", [](Pb& m) { m.mutable_sets(1)->set_flow(11); }},
       {"path_push.withdrawn: 3 occurs twice", [](Pb& m) { m.add_withdrawn(3); }},
       {"path_push.withdrawn: 12 is also in path_push.sets.flow",
        [](Pb& m) { m.add_withdrawn(12); }},
       {"path_push.withdrawn: 16385", [](Pb& m) { m.mutable_withdrawn()->Resize(16385, 1); }},
       {"path_push.unsteered: 16385", [](Pb& m) { m.mutable_unsteered()->Resize(16385, 1); }},
       {"path_push.sets: 16385 entries", [](Pb& m) {
          while (m.sets_size() <= 16384) m.add_sets();
        }}});
}

TEST(Rules, OfAck) {
  using Pb = v1::Ack;
  ExpectErrors<Ack, Pb>(
      &v1::Envelope::mutable_ack,
      {{"ack.status: 4 is not in 0..3", [](Pb& m) { m.set_status(static_cast<v1::AckStatus>(4)); }},
       {"ack.detail: \"?[31m\" has", [](Pb& m) { m.set_detail("\x1b[31m"); }},
       {"ack.failed_flows: 16385", [](Pb& m) { m.mutable_failed_flows()->Resize(16385, 1); }},
       {"ack.failed_flows: 11 occurs twice", [](Pb& m) { m.add_failed_flows(11); }}});
}

TEST(Rules, OfProbeOrder) {
  using Pb = v1::ProbeOrder;
  ExpectErrors<ProbeOrder, Pb>(
      &v1::Envelope::mutable_probe_order,
      {{"probe_order.source: 0 bytes are no address", [](Pb& m) { m.clear_source(); }},
       {"probe_order.destination: must be of the same address family",
        [](Pb& m) { m.set_destination(std::string(16, '\x20')); }},
       {"probe_order.destination: must not be the unspecified",
        [](Pb& m) { m.set_destination(kNone); }},
       {"probe_order.destination_port: 0", [](Pb& m) { m.set_destination_port(0); }},
       {"probe_order.destination_qpn: 16777216", [](Pb& m) { m.set_destination_qpn(1U << 24U); }},
       {"probe_order.flow_protocol: 256", [](Pb& m) { m.set_flow_protocol(256); }},
       {"probe_order.source_ports x ttls: 0", [](Pb& m) { m.clear_source_ports(); }},
       {"probe_order.source_ports x ttls: 65538",
        [](Pb& m) { m.mutable_source_ports()->Resize(21846, 1); }},
       {"probe_order.source_ports[1]: 0", [](Pb& m) { m.set_source_ports(1, 0); }},
       {"probe_order.source_ports[0]: 65536", [](Pb& m) { m.set_source_ports(0, 65536); }},
       {"probe_order.ttls[2]: 0 is not in 1..255", [](Pb& m) { m.set_ttls(2, 0); }},
       {"probe_order.ttls[2]: 256", [](Pb& m) { m.set_ttls(2, 256); }},
       {"probe_order.probes_per_second: 0", [](Pb& m) { m.set_probes_per_second(0); }},
       {"probe_order.timeout_us: 92", [](Pb& m) { m.set_timeout_us(kHuge); }}});
}

TEST(Rules, OfTrainOrder) {
  using Pb = v1::TrainOrder;
  ExpectErrors<TrainOrder, Pb>(
      &v1::Envelope::mutable_train_order,
      {{"train_order.key: must have 16 bytes", [](Pb& m) { m.set_key("short"); }},
       {"train_order.destination_port: 0", [](Pb& m) { m.set_destination_port(0); }},
       {"train_order.packets: 0 is not in 1..16", [](Pb& m) { m.set_packets(0); }},
       {"train_order.packets: 17", [](Pb& m) { m.set_packets(17); }},
       {"train_order.gap_us: 92", [](Pb& m) { m.set_gap_us(kHuge); }},
       {"train_order.addresses[1]: must not be the unspecified",
        [](Pb& m) { m.set_addresses(1, kNone); }},
       {"train_order.number: 1025", [](Pb& m) { m.mutable_number()->Resize(1025, 1); }},
       {"train_order.source: 0 entries, but train_order.number has 1",
        [](Pb& m) { m.clear_source(); }},
       {"train_order.destination[0]: index 2 beyond 2 addresses",
        [](Pb& m) { m.set_destination(0, 2); }},
       {"train_order.source_port[0]: 0", [](Pb& m) { m.set_source_port(0, 0); }},
       {"train_order.protocol[0]: is neither", [](Pb& m) { m.set_protocol(0, 1); }},
       {"train_order.dscp[0]: 64", [](Pb& m) { m.set_dscp(0, 64); }},
       {"train_order.start_us[0]: 92", [](Pb& m) { m.set_start_us(0, kHuge); }},
       {"train_order.expected: 1025", [](Pb& m) { m.mutable_expected()->Resize(1025, 1); }},
       {"train_order.expected_until_us: 0 entries", [](Pb& m) { m.clear_expected_until_us(); }},
       {"train_order.expected_source: 2 entries", [](Pb& m) { m.add_expected_source(0); }},
       {"train_order.expected_source_port: 1 entries, but train_order.expected_source has 0",
        [](Pb& m) { m.clear_expected_source(); }},
       {"train_order.expected_source[0]: index 2 beyond 2 addresses",
        [](Pb& m) { m.set_expected_source(0, 2); }},
       {"train_order.expected_source_port[0]: 0", [](Pb& m) { m.set_expected_source_port(0, 0); }},
       {"train_order.expected_protocol[0]: is neither",
        [](Pb& m) { m.set_expected_protocol(0, 1); }}});
}

TEST(Rules, OfTrainReport) {
  using Pb = v1::TrainReport;
  ExpectErrors<TrainReport, Pb>(
      &v1::Envelope::mutable_train_report,
      {{"train_report.sent: 2049", [](Pb& m) { m.mutable_sent()->Resize(2049, 1); }},
       {"train_report.sent_mask[0]: 65536", [](Pb& m) { m.set_sent_mask(0, 1U << 16U); }},
       {"train_report.span_us[0]: 92", [](Pb& m) { m.set_span_us(0, kHuge); }},
       {"train_report.received: 7 occurs twice", [](Pb& m) { m.set_received(0, 7); }},
       {"train_report.digest: 3 entries, but train_report.received has 2",
        [](Pb& m) { m.add_digest(1); }},
       {"train_report.arrived_mask[1]: 65536", [](Pb& m) { m.set_arrived_mask(1, 1U << 16U); }},
       {"train_report.marked_mask[0]: marks packets", [](Pb& m) { m.set_marked_mask(0, 2); }},
       {"train_report.delay_us: must have one entry", [](Pb& m) { m.add_delay_us(1); }}});
}

TEST(Rules, OfProbeReport) {
  using Pb = v1::ProbeReport;
  ExpectErrors<ProbeReport, Pb>(
      &v1::Envelope::mutable_probe_report,
      {{"probe_report.ttl: 0 entries, but probe_report.source_port has 2",
        [](Pb& m) { m.clear_ttl(); }},
       {"probe_report.responder: 3 entries", [](Pb& m) { m.add_responder(0); }},
       {"probe_report.rtt_us: 0 entries", [](Pb& m) { m.clear_rtt_us(); }},
       {"probe_report.source_port: 65537 entries",
        [](Pb& m) { m.mutable_source_port()->Resize(65537, 1); }},
       {"probe_report.source_port[0]: 0", [](Pb& m) { m.set_source_port(0, 0); }},
       {"probe_report.ttl[1]: 300", [](Pb& m) { m.set_ttl(1, 300); }},
       {"probe_report.responder[1]: index 2 beyond 2 responders",
        [](Pb& m) { m.set_responder(1, 2); }},
       {"probe_report.responder[0]: index 0 beyond 0 responders",
        [](Pb& m) { m.clear_responders(); }},
       {"probe_report.responders[1]: 3 bytes are no address",
        [](Pb& m) { m.set_responders(1, "123"); }},
       {"probe_report.responders: 16385 entries",
        [](Pb& m) {
          while (m.responders_size() <= 16384) m.add_responders("1234");
        }},
       {"probe_report.error: 4097 bytes", [](Pb& m) { m.set_error(kLongText); }}});
}

TEST(Rules, OfPathHealth) {
  using Pb = v1::PathHealth;
  ExpectErrors<PathHealth, Pb>(
      &v1::Envelope::mutable_path_health,
      {{"path_health.path_id: 0 entries", [](Pb& m) { m.clear_path_id(); }},
       {"path_health.source_port: 0 entries", [](Pb& m) { m.clear_source_port(); }},
       {"path_health.achieved_bps: 0 entries", [](Pb& m) { m.clear_achieved_bps(); }},
       {"path_health.planned_bps: 0 entries", [](Pb& m) { m.clear_planned_bps(); }},
       {"path_health.retries: 0 entries", [](Pb& m) { m.clear_retries(); }},
       {"path_health.out_of_sequence: 0 entries", [](Pb& m) { m.clear_out_of_sequence(); }},
       {"path_health.cnp: 0 entries", [](Pb& m) { m.clear_cnp(); }},
       {"path_health.rtt_us: 0 entries", [](Pb& m) { m.clear_rtt_us(); }},
       {"path_health.verdict: 0 entries", [](Pb& m) { m.clear_verdict(); }},
       {"path_health.recovered_us: 1 entries", [](Pb& m) { m.add_recovered_us(1); }},
       {"path_health.answered: 1 entries", [](Pb& m) { m.add_answered(true); }},
       {"path_health.left_port: 1 entries", [](Pb& m) { m.add_left_port(1); }},
       {"path_health.left_port[1]: 65536",
        [](Pb& m) {
          m.add_left_port(1);
          m.add_left_port(65'536);
        }},
       {"path_health.recovered_us[1]: 18",
        [](Pb& m) {
          m.add_recovered_us(1);
          m.add_recovered_us(~std::uint64_t{0});
        }},
       {"path_health.flow: 16385 entries", [](Pb& m) { m.mutable_flow()->Resize(16385, 1); }},
       {"path_health.source_port[1]: 65536", [](Pb& m) { m.set_source_port(1, 65536); }},
       {"path_health.achieved_bps[0]: 92", [](Pb& m) { m.set_achieved_bps(0, kHuge); }},
       {"path_health.planned_bps[1]: 92", [](Pb& m) { m.set_planned_bps(1, kHuge); }},
       {"path_health.verdict[0]: 4 is not in 0..3", [](Pb& m) { m.set_verdict(0, 4); }},
       {"path_health.flow: 7 occurs more than 64 times", [](Pb& m) {
          for (auto* column :
               {m.mutable_flow(), m.mutable_achieved_bps(), m.mutable_planned_bps()}) {
            column->Resize(65, 7);
          }
          for (auto* column : {m.mutable_path_id(), m.mutable_source_port(), m.mutable_retries(),
                               m.mutable_out_of_sequence(), m.mutable_cnp(), m.mutable_rtt_us(),
                               m.mutable_verdict()}) {
            column->Resize(65, 1);
          }
          std::fill(m.mutable_flow()->begin(), m.mutable_flow()->end(), 7);
        }}});
}

TEST(Rules, OfLinkEvent) {
  using Pb = v1::LinkEvent;
  ExpectErrors<LinkEvent, Pb>(
      &v1::Envelope::mutable_link_event,
      {{"link_event.link: 256 bytes", [](Pb& m) { m.set_link(kLongName); }},
       {"link_event.address: 2 bytes are no address", [](Pb& m) { m.set_address("12"); }},
       {"link_event.source: \"??\"", [](Pb& m) { m.set_source("\xc2\x85"); }},
       {"link_event: names neither a link nor an address", [](Pb& m) {
          m.clear_link();
          m.clear_address();
        }}});
}

TEST(Rules, OfRankPlan) {
  using Pb = v1::RankPlan;
  ExpectErrors<RankPlan, Pb>(
      &v1::Envelope::mutable_rank_plan,
      {{"rank_plan.job: is missing", [](Pb& m) { m.clear_job(); }},
       {"rank_plan.peers: 16385 entries",
        [](Pb& m) {
          while (m.peers_size() <= 16384) m.add_peers();
        }},
       {"rank_plan.peers[0].address: 0 bytes are no address",
        [](Pb& m) { m.mutable_peers(0)->clear_address(); }},
       {"rank_plan.peers[0].source_ports: 65 entries",
        [](Pb& m) { m.mutable_peers(0)->mutable_source_ports()->Resize(65, 1); }},
       {"rank_plan.peers[0].source_ports[1]: 0",
        [](Pb& m) { m.mutable_peers(0)->set_source_ports(1, 0); }},
       {"rank_plan.peers[0].destination_port: 65536",
        [](Pb& m) { m.mutable_peers(0)->set_destination_port(65536); }},
       {"rank_plan.peers[0].channels: 3 entries",
        [](Pb& m) { m.mutable_peers(0)->add_channels(3); }},
       {"rank_plan.peers[0].connections: 65 entries",
        [](Pb& m) {
          while (m.peers(0).connections_size() <= 64) m.mutable_peers(0)->add_connections();
        }},
       {"rank_plan.peers[0].connections.source: 0 bytes are no address",
        [](Pb& m) { m.mutable_peers(0)->mutable_connections(0)->clear_source(); }},
       {"rank_plan.peers[0].connections.destination: 3 bytes are no address",
        [](Pb& m) { m.mutable_peers(0)->mutable_connections(0)->set_destination("123"); }},
       {"rank_plan.listen_addresses: 257 entries",
        [](Pb& m) {
          while (m.listen_addresses_size() <= 256) m.add_listen_addresses("1234");
        }},
       {"rank_plan.listen_addresses[0]: 2 bytes are no address",
        [](Pb& m) { m.set_listen_addresses(0, "12"); }},
       {"rank_plan.address: 2 bytes are no address", [](Pb& m) { m.set_address("12"); }},
       {"rank_plan.job_key: must have 32 bytes", [](Pb& m) { m.set_job_key("short"); }},
       {"rank_plan.rank_addresses: must have one address for each rank",
        [](Pb& m) { m.set_ranks(5); }},
       {"rank_plan.rank_addresses[1]: 3 bytes are no address",
        [](Pb& m) { m.set_rank_addresses(1, "123"); }},
       {"rank_plan.user: must be a user's name or a number",
        [](Pb& m) { m.set_user("alice; a line of the log"); }},
       {"rank_plan.user: must be a user's name or a number",
        [](Pb& m) { m.set_user(std::string(34, 'a')); }},
       {"rank_plan.user: must be a user's name or a number",
        [](Pb& m) { m.set_user("4294967296"); }},
       {"rank_plan.listen_port: 65536", [](Pb& m) { m.set_listen_port(65536); }}});
}

TEST(Rules, OfCollectiveReport) {
  using Pb = v1::CollectiveReport;
  ExpectErrors<CollectiveReport, Pb>(
      &v1::Envelope::mutable_collective_report,
      {{"collective_report.job: is missing", [](Pb& m) { m.clear_job(); }},
       {"collective_report.collective: 256", [](Pb& m) { m.set_collective(kLongName); }},
       {"collective_report.bytes: 92", [](Pb& m) { m.set_bytes(kHuge); }},
       {"collective_report.duration_us: 92", [](Pb& m) { m.set_duration_us(kHuge); }},
       {"collective_report.error: 4097", [](Pb& m) { m.set_error(kLongText); }}});
}

}  // namespace
}  // namespace espalier::wire
