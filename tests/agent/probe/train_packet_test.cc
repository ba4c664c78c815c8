#include "agent/probe/train_packet.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace espalier::agent {
namespace {

using Packet = std::vector<std::uint8_t>;

constexpr std::int64_t kSent = 1'700'000'000'123'456'789;

IpAddress Address(const char* text) { return IpAddress::Parse(text).value(); }

TrainPacket Example(bool is_v4, std::uint8_t protocol) {
  return {.source = Address(is_v4 ? "10.0.0.1" : "fd00::1"),
          .destination = Address(is_v4 ? "10.1.0.2" : "fd00:1::2"),
          .source_port = 0xC123,
          .destination_port = 4'900,
          .protocol = protocol,
          .traffic_class = 26 << 2 | kEcnCapable,
          .ttl = 16,
          .number = 0x0102'0304'0506'0708,
          .index = 7,
          .token = 0x1112'1314'1516'1718};
}

TrainPayload PayloadOf(const TrainPacket& packet) {
  return {.number = packet.number, .index = packet.index, .sent_ns = kSent, .token = packet.token};
}

std::size_t IpBytes(const TrainPacket& packet) { return packet.source.IsV4() ? 20 : 40; }

std::span<const std::uint8_t> Behind(const Packet& packet, std::size_t bytes) {
  return std::span(packet).subspan(bytes);
}

// An independent checksum: 16-bit words with the carry added at once.
std::uint16_t Add(std::uint16_t sum, std::span<const std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const std::uint32_t low = i + 1 < bytes.size() ? bytes[i + 1] : 0U;
    const std::uint32_t next = sum + (std::uint32_t{bytes[i]} << 8 | low);
    sum = static_cast<std::uint16_t>(next + (next >> 16));
  }
  return sum;
}

TEST(TrainPacket, HasTheHeadersThatSwitchesHash) {
  const Packet v4 = BuildTrainPacket(Example(true, 17), kSent);
  ASSERT_EQ(v4.size(), 20U + 8 + kTrainPayloadBytes);
  const Packet v4_header(v4.begin(), v4.begin() + 28);
  EXPECT_EQ((Packet{v4_header.begin(), v4_header.begin() + 26}),
            (Packet{0x45, 26 << 2 | 2, 0, 57, 0, 0, 0x40, 0,    16,   17,   0,    0, 10,
                    0,    0,           1, 10, 1, 0, 2,    0xC1, 0x23, 0x13, 0x24, 0, 37}));
  const Packet v6 = BuildTrainPacket(Example(false, 6), kSent);
  ASSERT_EQ(v6.size(), 40U + 20 + kTrainPayloadBytes);
  EXPECT_EQ((Packet{v6.begin(), v6.begin() + 8}), (Packet{0x66, 0xA0, 0, 0, 0, 49, 6, 16}));
  EXPECT_EQ((Packet{v6.begin() + 40, v6.begin() + 56}),
            (Packet{0xC1, 0x23, 0x13, 0x24, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x04, 0, 0}));
}

TEST(TrainPacket, HasCorrectChecksums) {
  for (const bool is_v4 : {true, false}) {
    for (const std::uint8_t protocol : {std::uint8_t{17}, std::uint8_t{6}}) {
      TrainPacket example = Example(is_v4, protocol);
      for (example.index = 0; example.index < 100; ++example.index) {
        const Packet packet = BuildTrainPacket(example, kSent);
        const std::size_t ip = IpBytes(example);
        const auto addresses = std::span(packet).subspan(is_v4 ? 12 : 8, is_v4 ? 8 : 32);
        const auto segment = Behind(packet, ip);
        const std::array<std::uint8_t, 4> rest = {0, protocol,
                                                  static_cast<std::uint8_t>(segment.size() >> 8),
                                                  static_cast<std::uint8_t>(segment.size())};
        EXPECT_EQ(Add(Add(Add(0, addresses), rest), segment), 0xFFFF);
      }
    }
  }
}

TEST(TrainPacket, IsReadAsItWasBuilt) {
  const TrainPacket udp = Example(true, 17);
  EXPECT_EQ(ParseTrainPayload(Behind(BuildTrainPacket(udp, kSent), 28)), PayloadOf(udp));
  const TrainPacket v4 = Example(true, 6);
  const auto segment = ParseTrainSegmentV4(BuildTrainPacket(v4, kSent));
  ASSERT_TRUE(segment);
  EXPECT_EQ(segment->payload, PayloadOf(v4));
  EXPECT_EQ(segment->source, v4.source);
  EXPECT_EQ(segment->destination, v4.destination);
  EXPECT_EQ(segment->destination_port, 4'900);
  EXPECT_EQ(segment->traffic_class, 26 << 2 | kEcnCapable);
  const TrainPacket v6 = Example(false, 6);
  const auto other =
      ParseTrainSegmentV6(v6.source, v6.destination, Behind(BuildTrainPacket(v6, kSent), 40));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->payload, PayloadOf(v6));
  EXPECT_EQ(other->destination_port, 4'900);
}

TEST(TrainPacket, KeepsTimesBefore1970) {
  const Packet packet =
      BuildTrainPacket(Example(true, 17), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(ParseTrainPayload(Behind(packet, 28))->sent_ns,
            std::numeric_limits<std::int64_t>::min());
}

TEST(TrainPacket, OtherPayloadsAreRefused) {
  const Packet packet = BuildTrainPacket(Example(true, 17), kSent);
  const auto payload = Behind(packet, 28);
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_FALSE(ParseTrainPayload(payload.first(size))) << size;
  }
  Packet longer(payload.begin(), payload.end());
  longer.push_back(0);
  EXPECT_FALSE(ParseTrainPayload(longer));
  for (std::size_t i = 0; i < 4; ++i) {
    Packet other(payload.begin(), payload.end());
    other[i] ^= 1;
    EXPECT_FALSE(ParseTrainPayload(other)) << "magic " << i;
  }
}

TEST(TrainPacket, DamagedSegmentsAreRefused) {
  const Packet v4 = BuildTrainPacket(Example(true, 6), kSent);
  for (std::size_t size = 0; size < v4.size(); ++size) {
    EXPECT_FALSE(ParseTrainSegmentV4(std::span(v4).first(size))) << size;
  }
  for (std::size_t i = 12; i < v4.size(); ++i) {  // addresses and segment
    Packet damaged = v4;
    damaged[i] ^= 0x40;
    EXPECT_FALSE(ParseTrainSegmentV4(damaged)) << i;
  }
  for (const auto& [at, value] : {std::pair<std::size_t, int>{0, 0x65},
                                  {0, 0x41},
                                  {0, 0x4F},
                                  {2, 1},
                                  {3, 20},
                                  {6, 0x20},  // more fragments
                                  {7, 1},     // a later fragment
                                  {9, 17}}) {
    Packet damaged = v4;
    damaged[at] = static_cast<std::uint8_t>(value);
    EXPECT_FALSE(ParseTrainSegmentV4(damaged)) << at << " " << value;
  }
}

TEST(TrainPacket, OptionsOfIpv4AreSkipped) {
  Packet packet = BuildTrainPacket(Example(true, 6), kSent);
  packet.insert(packet.begin() + 20, {1, 1, 1, 1});
  packet[0] = 0x46;
  packet[3] = static_cast<std::uint8_t>(packet.size());
  ASSERT_TRUE(ParseTrainSegmentV4(packet));
  EXPECT_EQ(ParseTrainSegmentV4(packet)->payload, PayloadOf(Example(true, 6)));
}

TEST(TrainPacket, SegmentsBetweenOtherAddressesAreRefused) {
  const TrainPacket v6 = Example(false, 6);
  const Packet packet = BuildTrainPacket(v6, kSent);
  EXPECT_FALSE(ParseTrainSegmentV6(Address("fd00::9"), v6.destination, Behind(packet, 40)));
  for (std::size_t size = 0; size < packet.size() - 40; ++size) {
    EXPECT_FALSE(ParseTrainSegmentV6(v6.source, v6.destination, Behind(packet, 40).first(size)));
  }
}

}  // namespace
}  // namespace espalier::agent
