#include "controller/telemetry/sflow.h"

#include <gtest/gtest.h>

#include "common/base/random.h"
#include "controller/telemetry/packet_key.h"
#include "tests/controller/telemetry/sflow_datagrams.h"

namespace espalier::telemetry {
namespace {

TEST(Sflow, ReadsPacketSamplesOfUacctd) {
  const Bytes bytes = RealDatagram("uacctd_two_flows");
  SflowDatagram datagram;
  ASSERT_EQ(datagram.Parse(bytes), nullptr);
  EXPECT_EQ(datagram.agent.ToString(), "10.254.2.2");
  EXPECT_EQ(datagram.sequence, 28U);
  ASSERT_EQ(datagram.flows.size(), 2U);
  EXPECT_TRUE(datagram.counters.empty());
  for (const SflowFlowSample& sample : datagram.flows) {
    EXPECT_EQ(sample.rate, 16U);
    EXPECT_EQ(sample.input, (SflowInterface{SflowInterface::Kind::kIndex, 2}));
    EXPECT_EQ(sample.output, (SflowInterface{SflowInterface::Kind::kIndex, 1'000}));
    EXPECT_EQ(sample.frame_bytes, 1'086U);
    const auto packet = ReadSampledPacket(sample);
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->key.source.ToString(), "10.0.0.1");
    EXPECT_EQ(packet->key.destination.ToString(), "10.2.0.1");
    EXPECT_EQ(packet->key.source_port, 50'000U);
    EXPECT_EQ(packet->key.destination_port, 4'791U);
    EXPECT_EQ(packet->key.queue_pair, 17U);
    EXPECT_EQ(packet->key.protocol, 17U);
    EXPECT_EQ(packet->frame_bytes, 1'086U);
  }
}

TEST(Sflow, ReadsExpandedPacketSamplesOfHsflowd) {
  const Bytes bytes = RealDatagram("hsflowd_expanded_flow");
  SflowDatagram datagram;
  ASSERT_EQ(datagram.Parse(bytes), nullptr);
  EXPECT_EQ(datagram.sub_agent, 100'000U);
  ASSERT_EQ(datagram.flows.size(), 1U);
  EXPECT_EQ(datagram.flows[0].input.kind, SflowInterface::Kind::kInternal);
  EXPECT_EQ(datagram.flows[0].output, (SflowInterface{SflowInterface::Kind::kIndex, 1'003}));
  const auto packet = ReadSampledPacket(datagram.flows[0]);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->key.source.ToString(), "10.2.1.1");
  EXPECT_EQ(packet->key.destination.ToString(), "10.0.1.1");
  EXPECT_EQ(packet->key.source_port, 4'791U);
  EXPECT_EQ(packet->key.protocol, 6U);
  EXPECT_EQ(packet->key.queue_pair, 0U);
}

TEST(Sflow, ReadsExpandedCountersOfHsflowd) {
  const Bytes bytes = RealDatagram("hsflowd_expanded_counters");
  SflowDatagram datagram;
  ASSERT_EQ(datagram.Parse(bytes), nullptr);
  ASSERT_EQ(datagram.counters.size(), 1U);
  const SflowCounterSample& sample = datagram.counters[0];
  EXPECT_EQ(sample.port_name, "l0");
  ASSERT_TRUE(sample.interface);
  EXPECT_EQ(sample.interface->index, 2U);
  EXPECT_EQ(sample.interface->in_octets, 41'863'620U);
}

TEST(Sflow, ReadsPacketsInVlansAndOverIpV6) {
  Bytes frame = RoceHeader(0x0A000001, 0x0A020001, 50'000, 0x123456);
  SflowFlowSample sample{.rate = 1, .header_protocol = 1, .frame_bytes = 128, .header = frame};
  auto packet = ReadSampledPacket(sample);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->frame_bytes, 1'086U) << "the length in the IP header, and the frame around it";
  EXPECT_EQ(packet->key.queue_pair, 0x123456U);
  Bytes tagged = frame;
  tagged.insert(tagged.begin() + 12, {0x88, 0xA8, 0, 7, 0x81, 0x00, 0, 9});
  sample.header = tagged;
  ASSERT_TRUE(ReadSampledPacket(sample));
  EXPECT_EQ(ReadSampledPacket(sample)->key, packet->key);

  Bytes v6 = {0x60, 0, 0, 0, 0, 100, 6, 64};
  for (int i = 0; i < 32; ++i) v6.push_back(static_cast<std::uint8_t>(i));
  v6.insert(v6.end(), {0xC3, 0x50, 0x00, 0x50});
  sample = {.rate = 1, .header_protocol = 12, .frame_bytes = 100, .header = v6};
  packet = ReadSampledPacket(sample);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->key.source.ToString(), "1:203:405:607:809:a0b:c0d:e0f");
  EXPECT_EQ(packet->key.source_port, 50'000U);
  EXPECT_EQ(packet->key.destination_port, 80U);
  EXPECT_EQ(packet->frame_bytes, 158U);
}

TEST(Sflow, ReadsNothingFromLaterFragmentsAndOtherProtocols) {
  Bytes frame = RoceHeader(1, 2, 3, 4);
  SflowFlowSample sample{.rate = 1, .header_protocol = 1, .frame_bytes = 128, .header = frame};
  frame[14 + 7] = 1;  // a fragment's offset
  EXPECT_FALSE(ReadSampledPacket(sample));
  frame[14 + 7] = 0;
  frame[12] = 0x86;  // neither of IPv4 nor of IPv6
  EXPECT_FALSE(ReadSampledPacket(sample));
  frame[12] = 0x08;
  sample.header_protocol = 2;
  EXPECT_FALSE(ReadSampledPacket(sample));
  sample.header_protocol = 1;
  for (std::size_t length = 0; length < 14 + 20 + 16; ++length) {
    sample.header = std::span(frame).first(length);
    EXPECT_FALSE(ReadSampledPacket(sample)) << length;
  }
}

TEST(Sflow, SkipsSamplesOfOtherTypesAndWithoutARate) {
  const Bytes frame = RoceHeader(1, 2, 3, 4);
  const Bytes bytes = Datagram({}, {{5, {1, 2, 3}},
                                    {0x1000 | 1, {}},
                                    {1, FlowSample(2, 0, frame)},
                                    {1, FlowSample(2, 7, frame)}});
  SflowDatagram datagram;
  ASSERT_EQ(datagram.Parse(bytes), nullptr);
  EXPECT_EQ(datagram.skipped, 3U);
  ASSERT_EQ(datagram.flows.size(), 1U);
  EXPECT_EQ(datagram.flows[0].rate, 7U);
}

TEST(Sflow, NamesWhatAnInterfaceFieldStandsFor) {
  using Kind = SflowInterface::Kind;
  const Bytes frame = RoceHeader(1, 2, 3, 4);
  const auto input = [&](std::uint32_t field) {
    const Bytes bytes = Datagram({}, {{1, FlowSample(field, 1, frame)}});
    SflowDatagram datagram;
    EXPECT_EQ(datagram.Parse(bytes), nullptr);
    return datagram.flows.at(0).input;
  };
  EXPECT_EQ(input(0).kind, Kind::kUnknown);
  EXPECT_EQ(input(0x3FFFFFFF).kind, Kind::kInternal);
  EXPECT_EQ(input(0x40000102), (SflowInterface{Kind::kDiscarded, 0x102}));
  EXPECT_EQ(input(0x80000003), (SflowInterface{Kind::kSeveral, 3}));
  EXPECT_EQ(input(0xC0000001).kind, Kind::kUnknown);
}

// Each is refused, or read within its bounds; the sanitizers watch.
TEST(Sflow, CutAndChangedDatagramsAreRefusedOrRead) {
  Random random(1);
  for (const char* const name :
       {"uacctd_two_flows", "hsflowd_expanded_flow", "hsflowd_expanded_counters"}) {
    const Bytes whole = RealDatagram(name);
    ASSERT_FALSE(whole.empty());
    SflowDatagram datagram;
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_NE(datagram.Parse(std::span(whole).first(length)), nullptr) << length;
    }
    std::size_t refused = 0;
    for (int i = 0; i < 5'000; ++i) {
      Bytes changed = whole;
      for (std::uint64_t flips = 1 + random.Below(4); flips > 0; --flips)
        changed[random.Below(changed.size())] ^= static_cast<std::uint8_t>(1U << random.Below(8));
      if (datagram.Parse(changed) != nullptr) {
        ++refused;
        continue;
      }
      for (const SflowFlowSample& sample : datagram.flows) ReadSampledPacket(sample);
    }
    EXPECT_GT(refused, 500U) << name;
  }
}

}  // namespace
}  // namespace espalier::telemetry
