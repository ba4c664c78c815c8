#include "proto/decode_trains.h"

#include <bit>

#include "proto/bodies.h"
#include "proto/espalier/v1/messages.pb.h"
#include "proto/limits.h"

namespace espalier::wire {
namespace {

constexpr std::uint32_t kMaxDscp = 63;
constexpr std::uint32_t kAllPackets = (1U << kMaxTrainPackets) - 1;

void DecodeAddresses(const v1::TrainOrder& from, Rules& rules, TrainOrder& to) {
  rules.AtMost("train_order.addresses", from.addresses_size(), kMaxTableEntries);
  if (!rules.ok()) return;
  to.addresses.resize(Size(from.addresses_size()));
  for (int i = 0; i < from.addresses_size(); ++i) {
    to.addresses[Size(i)] = rules.Address({"train_order.addresses", Size(i)}, from.addresses(i));
  }
}

void CheckProtocols(const char* field,
                    const google::protobuf::RepeatedField<std::uint32_t>& protocols, Rules& rules) {
  if (!rules.ok()) return;
  for (int i = 0; i < protocols.size(); ++i) {
    if (protocols[i] != kProtocolTcp && protocols[i] != kProtocolUdp) {
      rules.Fail({field, Size(i)}, "is neither 6 (TCP) nor 17 (UDP)");
    }
  }
}

void CheckTrains(const v1::TrainOrder& from, Rules& rules) {
  const Field number = "train_order.number";
  const int n = from.number_size();
  rules.AtMost(number, n, kMaxTrainsPerOrder);
  rules.SameLength("train_order.source", from.source_size(), number, n);
  rules.SameLength("train_order.destination", from.destination_size(), number, n);
  rules.SameLength("train_order.source_port", from.source_port_size(), number, n);
  rules.SameLength("train_order.protocol", from.protocol_size(), number, n);
  rules.SameLength("train_order.dscp", from.dscp_size(), number, n);
  rules.SameLength("train_order.start_us", from.start_us_size(), number, n);
  rules.Unique(number, Column(from.number()));
  rules.Indexes("train_order.source", Column(from.source()), "addresses", from.addresses_size());
  rules.Indexes("train_order.destination", Column(from.destination()), "addresses",
                from.addresses_size());
  rules.InRange("train_order.source_port", Column(from.source_port()), 1, kMaxPort);
  rules.InRange("train_order.dscp", Column(from.dscp()), 0, kMaxDscp);
  rules.InRange("train_order.start_us", Column(from.start_us()), 0, kMaxDurationUs);
  CheckProtocols("train_order.protocol", from.protocol(), rules);
}

void CheckExpected(const v1::TrainOrder& from, Rules& rules) {
  const Field expected = "train_order.expected";
  const int n = from.expected_size();
  rules.AtMost(expected, n, kMaxTrainsPerOrder);
  rules.SameLength("train_order.expected_until_us", from.expected_until_us_size(), expected, n);
  rules.InRange("train_order.expected_until_us", Column(from.expected_until_us()), 0,
                kMaxDurationUs);
  rules.Unique(expected, Column(from.expected()));
  const int known = from.expected_source_size();
  if (known > 0) rules.SameLength("train_order.expected_source", known, expected, n);
  rules.SameLength("train_order.expected_source_port", from.expected_source_port_size(),
                   "train_order.expected_source", known);
  rules.SameLength("train_order.expected_protocol", from.expected_protocol_size(),
                   "train_order.expected_source", known);
  rules.Indexes("train_order.expected_source", Column(from.expected_source()), "addresses",
                from.addresses_size());
  rules.InRange("train_order.expected_source_port", Column(from.expected_source_port()), 1,
                kMaxPort);
  CheckProtocols("train_order.expected_protocol", from.expected_protocol(), rules);
}

}  // namespace

void DecodeBody(const v1::TrainOrder& from, Rules& rules, TrainOrder& to) {
  if (from.key().size() != kTrainKeyBytes) rules.Fail("train_order.key", "must have 16 bytes");
  rules.InRange("train_order.destination_port", from.destination_port(), 1, kMaxPort);
  rules.InRange("train_order.packets", from.packets(), 1, kMaxTrainPackets);
  rules.InRange("train_order.gap_us", from.gap_us(), 0, kMaxDurationUs);
  DecodeAddresses(from, rules, to);
  CheckTrains(from, rules);
  CheckExpected(from, rules);
  if (!rules.ok()) return;
  to.key = from.key();
  to.destination_port = static_cast<std::uint16_t>(from.destination_port());
  to.packets = static_cast<std::uint8_t>(from.packets());
  to.gap_us = from.gap_us();
  to.urgent = from.urgent();
  to.trains.resize(Size(from.number_size()));
  for (int i = 0; i < from.number_size(); ++i) {
    to.trains[Size(i)] = {.number = from.number(i),
                          .source = from.source(i),
                          .destination = from.destination(i),
                          .source_port = static_cast<std::uint16_t>(from.source_port(i)),
                          .protocol = static_cast<std::uint8_t>(from.protocol(i)),
                          .dscp = static_cast<std::uint8_t>(from.dscp(i)),
                          .start_us = from.start_us(i)};
  }
  to.expected.resize(Size(from.expected_size()));
  for (int i = 0; i < from.expected_size(); ++i) {
    wire::ExpectedTrain& train = to.expected[Size(i)];
    train.number = from.expected(i);
    train.until_us = from.expected_until_us(i);
    if (from.expected_source_size() == 0) continue;
    train.source = from.expected_source(i);
    train.source_port = static_cast<std::uint16_t>(from.expected_source_port(i));
    train.protocol = static_cast<std::uint8_t>(from.expected_protocol(i));
  }
}

void DecodeBody(const v1::TrainReport& from, Rules& rules, TrainReport& to) {
  const Field sent = "train_report.sent";
  rules.AtMost(sent, from.sent_size(), kMaxTrainsPerReport);
  rules.SameLength("train_report.sent_mask", from.sent_mask_size(), sent, from.sent_size());
  rules.SameLength("train_report.span_us", from.span_us_size(), sent, from.sent_size());
  rules.InRange("train_report.sent_mask", Column(from.sent_mask()), 0, kAllPackets);
  rules.InRange("train_report.span_us", Column(from.span_us()), 0, kMaxDurationUs);
  rules.Unique(sent, Column(from.sent()));
  const Field received = "train_report.received";
  const int n = from.received_size();
  rules.AtMost(received, n, kMaxTrainsPerReport);
  rules.SameLength("train_report.arrived_mask", from.arrived_mask_size(), received, n);
  rules.SameLength("train_report.marked_mask", from.marked_mask_size(), received, n);
  rules.SameLength("train_report.digest", from.digest_size(), received, n);
  rules.SameLength("train_report.overflowed", from.overflowed_size(), received, n);
  rules.InRange("train_report.arrived_mask", Column(from.arrived_mask()), 0, kAllPackets);
  rules.Unique(received, Column(from.received()));
  if (!rules.ok()) return;
  int arrived = 0;
  for (int i = 0; i < n; ++i) {
    arrived += std::popcount(from.arrived_mask(i));
    if ((from.marked_mask(i) & ~from.arrived_mask(i)) != 0) {
      rules.Fail({"train_report.marked_mask", Size(i)}, "marks packets that have not arrived");
    }
  }
  if (from.delay_us_size() != arrived) {
    rules.Fail("train_report.delay_us", "must have one entry for each packet that has arrived");
  }
  if (!rules.ok()) return;
  to.sent.resize(Size(from.sent_size()));
  for (int i = 0; i < from.sent_size(); ++i) {
    to.sent[Size(i)] = {from.sent(i), static_cast<std::uint16_t>(from.sent_mask(i)),
                        from.span_us(i)};
  }
  to.received.resize(Size(n));
  int next = 0;
  for (int i = 0; i < n; ++i) {
    ReceivedTrain& train = to.received[Size(i)];
    train = {.number = from.received(i),
             .arrived_mask = static_cast<std::uint16_t>(from.arrived_mask(i)),
             .marked_mask = static_cast<std::uint16_t>(from.marked_mask(i)),
             .digest = from.digest(i),
             .overflowed = from.overflowed(i)};
    for (int k = std::popcount(train.arrived_mask); k > 0; --k) {
      train.delays_us.push_back(from.delay_us(next++));
    }
  }
}

}  // namespace espalier::wire
