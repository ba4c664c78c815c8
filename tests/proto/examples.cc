#include "tests/proto/examples.h"

namespace espalier::wire {
namespace {

IpAddress Address(const char* text) { return IpAddress::Parse(text).value(); }

Hello MakeHello() {
  return {.name = "host7",
          .protocol_minor = 2,
          .features = {"probe", "verbs"},
          .highest_epoch = 5,
          .applied_generation = 41,
          .nics = {{.address = Address("10.0.0.7"), .device = "mlx5_0", .link_up = true},
                   {.address = Address("fd00::7"), .device = "mlx5_1", .link_up = false}}};
}

Welcome MakeWelcome() {
  return {.accepted = true,
          .reason = "welcome back",
          .protocol_minor = 1,
          .epoch = 6,
          .heartbeat_interval_us = 500'000,
          .features = {"probe"},
          .report_interval_us = 50'000,
          .max_messages_per_second = 5'000,
          .max_bytes_per_second = 64 << 20,
          .max_entries_per_second = 1'200'000};
}

FlowReport MakeFlowReport() {
  return {.full = true,
          .sequence = 9,
          .jobs = {"", "train-1"},
          .addresses = {Address("10.0.0.7"), Address("10.0.1.7"), Address("fd00::9")},
          .opened = {{.id = LocalFlowId(11),
                      .job = 1,
                      .source = 0,
                      .destination = 1,
                      .local_qpn = 0x111,
                      .remote_qpn = 0x222,
                      .max_paths = 4,
                      .age_us = 1'500,
                      .source_port = 50'000,
                      .steered = true,
                      .path_ports = {50'000, 50'001, 0}},
                     {.id = LocalFlowId(12),
                      .source = 0,
                      .destination = 2,
                      .protocol = kProtocolTcp,
                      .destination_port = 5'201,
                      .movable = false}},
          .progress = {{.id = LocalFlowId(11),
                        .remaining_bytes = 1'000'000,
                        .outstanding_bytes = 65'536,
                        .achieved_bps = 12'500'000'000,
                        .state = FlowState::kActive,
                        .sent_bytes = 3'000'000,
                        .edges = 7,
                        .edge_age_us = 2'500,
                        .duty_permille = 640},
                       {.id = LocalFlowId(12), .state = FlowState::kStalled}},
          .ended = {LocalFlowId(3), LocalFlowId(4)},
          .sent_us = 86'400'000'123};
}

PathPush MakePathPush() {
  return {.epoch = 6,
          .generation = 42,
          .full = true,
          .sets = {{.flow = LocalFlowId(11),
                    .paths = {{.source_port = 50'001, .weight = 3, .path_id = 5, .links = {3, 260}},
                              {.weight = 1, .path_id = 6, .encoding = "segment"}},
                    .max_rate_bps = 25'000'000'000,
                    .reason = PathReason::kPathDead},
                   {.flow = LocalFlowId(12), .paths = {{.source_port = 50'002}}}},
          .withdrawn = {LocalFlowId(3)},
          .plans = 2,
          .unsteered = {LocalFlowId(3)}};
}

Ack MakeAck() {
  return {.epoch = 6,
          .generation = 42,
          .status = AckStatus::kFailed,
          .detail = "no such queue pair",
          .failed_flows = {LocalFlowId(11), LocalFlowId(12)}};
}

ProbeOrder MakeProbeOrder() {
  return {.order = 77,
          .source = Address("10.0.0.7"),
          .destination = Address("10.0.1.7"),
          .destination_qpn = 0x333,
          .source_ports = {49'152, 49'153},
          .ttls = {1, 2, 3},
          .probes_per_second = 200,
          .timeout_us = 250'000};
}

ProbeReport MakeProbeReport() {
  return {.order = 77,
          .done = true,
          .sent = 6,
          .answers =
              {{.source_port = 49'152, .ttl = 1, .responder = Address("10.1.0.1"), .rtt_us = 80},
               {.source_port = 49'153, .ttl = 2, .responder = Address("fd00::1"), .rtt_us = 120}},
          .error = "cut short"};
}

PathHealth MakePathHealth() {
  return {
      .flows = {{.flow = LocalFlowId(11),
                 .path_id = 5,
                 .source_port = 50'001,
                 .achieved_bps = 1'000'000,
                 .planned_bps = 2'000'000,
                 .retries = 1,
                 .out_of_sequence = 2,
                 .cnp = 3,
                 .rtt_us = 90,
                 .verdict = PathVerdict::kSlow},
                {.flow = LocalFlowId(11), .path_id = 6, .verdict = PathVerdict::kLocallyRerouted}}};
}

RankPlan MakeRankPlan() {
  return {.epoch = 6,
          .generation = 43,
          .job = "train-1",
          .rank = 2,
          .program = std::string("\x01\x00\xff", 3),
          .program_version = 8,
          .peers = {{.rank = 3,
                     .address = Address("10.0.1.7"),
                     .source_ports = {50'003, 50'004},
                     .destination_port = 4'791,
                     .channels = {0, 2},
                     .connections = {{.channel = 2,
                                      .source = Address("10.2.0.7"),
                                      .destination = Address("10.2.1.7")}}}},
          .ranks = 4,
          .version = (std::uint64_t{6} << 32U) + 1,
          .address = Address("10.0.0.7"),
          .listen_port = 4'792,
          .offload = true,
          .job_key = "0123456789abcdef0123456789abcdef",
          .rank_addresses = {Address("10.0.0.5"), Address("10.0.0.6"), Address("10.0.0.7"),
                             Address("10.0.1.7")},
          .user = "alice",
          .listen_addresses = {Address("10.2.0.7")}};
}

TrainOrder MakeTrainOrder() {
  return {.key = "0123456789abcdef",
          .destination_port = 4'796,
          .packets = 8,
          .gap_us = 1'000,
          .urgent = true,
          .addresses = {Address("10.0.0.7"), Address("10.0.1.7")},
          .trains = {{.number = 0xFEDC'BA98'7654'3210,
                      .source = 0,
                      .destination = 1,
                      .source_port = 49'152,
                      .protocol = kProtocolTcp,
                      .dscp = 26,
                      .start_us = 250'000}},
          .expected = {{.number = 0x0123'4567'89AB'CDEF,
                        .until_us = 1'600'000,
                        .source = 1,
                        .source_port = 50'000,
                        .protocol = kProtocolTcp}}};
}

TrainReport MakeTrainReport() {
  return {.sent = {{.number = 0xFEDC'BA98'7654'3210, .sent_mask = 0xFF, .span_us = 7'100}},
          .received = {{.number = 0x0123'4567'89AB'CDEF,
                        .arrived_mask = 0x05,
                        .marked_mask = 0x04,
                        .digest = 0x1122'3344'5566'7788,
                        .overflowed = true,
                        .delays_us = {-1'200, 300}},
                       {.number = 7, .delays_us = {}}}};
}

}  // namespace

std::vector<Message> MakeExamples() {
  const std::vector<Body> bodies = {
      MakeHello(),
      MakeWelcome(),
      Heartbeat{.sequence = 100, .epoch = 6, .generation = 42, .report_interval_us = 20'000},
      MakeFlowReport(),
      MakePathPush(),
      MakeAck(),
      MakeProbeOrder(),
      MakeProbeReport(),
      MakePathHealth(),
      LinkEvent{.link = "leaf2--spine1",
                .address = Address("10.0.0.7"),
                .up = false,
                .source = "netlink"},
      MakeRankPlan(),
      CollectiveReport{.job = "train-1",
                       .rank = 2,
                       .sequence = 12,
                       .collective = "allreduce",
                       .bytes = 1'048'576,
                       .duration_us = 900,
                       .error = "timed out"},
      MakeTrainOrder(),
      MakeTrainReport()};
  std::vector<Message> examples;
  for (const Body& body : bodies) examples.push_back({.sender_instance = 0x1234, .body = body});
  return examples;
}

}  // namespace espalier::wire
