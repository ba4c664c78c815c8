// Tests parsing and the change of a source port against code written from the specification.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "agent/dpdk/packet/roce_packet.h"
#include "agent/dpdk/packet/source_port.h"
#include "agent/probe/sockets/icrc.h"
#include "agent/probe/sockets/probe_packet.h"
#include "tests/agent/dpdk/roce_frames.h"

namespace espalier::dpdk {
namespace {

RocePacket Parse(BuiltFrame& frame) {
  return ParseRoce(frame.bytes.data(), static_cast<std::uint32_t>(frame.bytes.size()));
}

const IcrcPatch& Patch() {
  static const IcrcPatch patch;
  return patch;
}

TEST(RocePacket, IsFoundBehindEveryStackOfHeaders) {
  const std::vector<std::vector<std::uint16_t>> stacks = {
      {}, {0x8100}, {0x88A8, 0x8100}, {0x88A8, 0x8100, 0x8100, 0x8100}};
  for (const auto& stack : stacks) {
    for (RoceFrame frame :
         {RoceFrame{}, RoceFrame{.option_bytes = 4}, RoceFrame{.option_bytes = 40},
          RoceFrame{.source = "fd00::1", .destination = "fd00:1::1"},
          RoceFrame{.source = "fd00::1", .destination = "fd00:1::1", .extensions = {0, 60, 43}}}) {
      frame.vlan_types = stack;
      frame.padding = 6;
      frame.destination_qpn = 0xABCDEF;
      frame.psn = 0xFEDCBA;
      frame.asks_for_acknowledgement = true;
      BuiltFrame built = Build(frame);
      const auto packet = Parse(built);
      ASSERT_TRUE(packet);
      EXPECT_EQ(packet.ip - built.bytes.data(), static_cast<std::ptrdiff_t>(built.ip));
      EXPECT_EQ(packet.udp - built.bytes.data(), static_cast<std::ptrdiff_t>(built.udp));
      EXPECT_EQ(packet.icrc() - built.bytes.data(), static_cast<std::ptrdiff_t>(built.end) - 4);
      EXPECT_EQ(packet.source_port(), 50'000);
      EXPECT_EQ(packet.destination_qpn(), 0xABCDEFU);
      EXPECT_EQ(packet.psn(), 0xFEDCBAU);
      EXPECT_EQ(packet.operation(), 0x07);
      EXPECT_TRUE(packet.asks_for_acknowledgement());
      EXPECT_EQ(packet.hop_limit(), 64);
    }
  }
}

TEST(RocePacket, KnowsTheSizeOfAMessage) {
  const auto dma = [](int opcode, Bytes payload) {
    BuiltFrame frame =
        Build({.opcode = static_cast<std::uint8_t>(opcode), .payload = std::move(payload)});
    return Parse(frame).DmaBytes();
  };
  for (const int opcode : {0x06, 0x0A, 0x0B, 0x0C, 0x26, 0x2A, 0x2B}) {
    EXPECT_EQ(dma(opcode, Reth(0x1234'5678, 256)), 0x1234'5678U) << opcode;
    EXPECT_EQ(dma(opcode, Bytes(12, 1)), std::nullopt) << "truncated";
  }
  Bytes extended(4, 9);  // the number of the receive queue comes first
  const Bytes reth = Reth(77'777);
  extended.insert(extended.end(), reth.begin(), reth.end());
  EXPECT_EQ(dma(0xA6, extended), 77'777U);
  for (const int opcode : {0x00, 0x07, 0x11, 0x2C, 0x46, 0x64, 0x66, 0x81, 0xFF}) {
    EXPECT_EQ(dma(opcode, Reth(5)), std::nullopt) << opcode;
  }
}

TEST(RocePacket, TellsAcknowledgementsAndProbesApart) {
  const auto is_nak = [](std::uint8_t opcode, std::uint8_t syndrome) {
    BuiltFrame frame = Build({.opcode = opcode, .payload = Aeth(syndrome)});
    return Parse(frame).IsSequenceNak();
  };
  EXPECT_TRUE(is_nak(0x11, 0x60));
  EXPECT_FALSE(is_nak(0x11, 0x1F));  // acknowledged
  EXPECT_FALSE(is_nak(0x11, 0x2F));  // receiver not ready
  EXPECT_FALSE(is_nak(0x11, 0x63));  // another error
  EXPECT_FALSE(is_nak(0x10, 0x60));
  for (const char* destination : {"10.0.1.1", "fd00:1::1"}) {
    const bool is_v4 = destination[0] == '1';
    const Bytes probe =
        agent::BuildProbePacket({.source = IpAddress::Parse(is_v4 ? "10.0.0.1" : "fd00::1").value(),
                                 .destination = IpAddress::Parse(destination).value(),
                                 .source_port = 50'000,
                                 .destination_qpn = 0x11,
                                 .ttl = 3},
                                1, 2);
    Bytes frame(12, 2);
    Append(frame, is_v4 ? 0x0800 : 0x86DD, 2);
    frame.insert(frame.end(), probe.begin(), probe.end());
    const auto packet = ParseRoce(frame.data(), static_cast<std::uint32_t>(frame.size()));
    ASSERT_TRUE(packet);
    EXPECT_TRUE(packet.IsProbe());
    packet.ip[is_v4 ? 8 : 7] = 64;
    EXPECT_FALSE(packet.IsProbe());
  }
}

TEST(RocePacket, IsNothingElse) {
  const auto refused = [](const char* what, const RoceFrame& frame, auto&& change) {
    BuiltFrame built = Build(frame);
    ASSERT_TRUE(Parse(built)) << what;
    change(built);
    EXPECT_FALSE(Parse(built)) << what;
  };
  const RoceFrame v6 = {.source = "fd00::1", .destination = "fd00:1::1", .extensions = {0}};
  const auto set = [](std::size_t at, std::uint8_t value) {
    return [=](BuiltFrame& frame) { frame.bytes[frame.ip + at] = value; };
  };
  refused("ARP", {}, [](BuiltFrame& frame) { Put16(frame.bytes, 12, 0x0806); });
  refused("TCP", {}, set(9, 6));
  refused("first fragment", {}, set(6, 0x20));
  refused("last fragment", {}, set(7, 1));
  refused("IPv6 in IPv4", {}, set(0, 0x65));
  refused("header of 16 bytes", {}, set(0, 0x44));
  refused("options that are not there", {}, set(0, 0x4F));
  refused("longer than the frame", {},
          [](BuiltFrame& frame) { Put16(frame.bytes, frame.ip + 2, frame.end - frame.ip + 1); });
  refused("UDP longer than IP", {.padding = 8},
          [](BuiltFrame& frame) { Put16(frame.bytes, frame.udp + 4, frame.end - frame.udp + 4); });
  refused("UDP shorter than IP", {},
          [](BuiltFrame& frame) { Put16(frame.bytes, frame.udp + 4, frame.end - frame.udp - 4); });
  refused("no multiple of four", {}, [](BuiltFrame& frame) {
    Put16(frame.bytes, frame.ip + 2, frame.end - frame.ip - 1);
    Put16(frame.bytes, frame.udp + 4, frame.end - frame.udp - 1);
  });
  refused("another port", {}, [](BuiltFrame& frame) { Put16(frame.bytes, frame.udp + 2, 4792); });
  refused("another transport version", {},
          [](BuiltFrame& frame) { frame.bytes[frame.udp + 9] |= 1; });
  for (const int header : {44, 50, 51, 59, 4, 6, 135}) {
    refused("extension header", v6, set(6, static_cast<std::uint8_t>(header)));
  }
  refused("extension of 2 KiB", v6, set(41, 255));
  refused("version 4 in IPv6", v6, set(0, 0x45));
  BuiltFrame five = Build({.vlan_types = {0x8100, 0x8100, 0x8100, 0x8100, 0x8100}});
  EXPECT_FALSE(Parse(five));
  BuiltFrame nine = Build({.source = "fd00::1",
                           .destination = "fd00:1::1",
                           .extensions = {60, 60, 60, 60, 60, 60, 60, 60, 60}});
  EXPECT_FALSE(Parse(nine));
}

TEST(RocePacket, IsNeverTruncated) {
  for (const RoceFrame& frame :
       {RoceFrame{.vlan_types = {0x88A8, 0x8100}, .option_bytes = 12},
        RoceFrame{.source = "fd00::1", .destination = "fd00:1::1", .extensions = {0, 60}}}) {
    const BuiltFrame whole = Build(frame);
    for (std::size_t size = 0; size < whole.bytes.size(); ++size) {
      Bytes part(whole.bytes.begin(), whole.bytes.begin() + static_cast<std::ptrdiff_t>(size));
      part.shrink_to_fit();
      EXPECT_FALSE(ParseRoce(part.data(), static_cast<std::uint32_t>(size))) << size;
    }
  }
}

// An acknowledgement captured from a soft-RoCE device, and the same with another port, whose CRC
// that device accepted.
TEST(SourcePort, OfACapturedPacketIsRewrittenAsTheDeviceWould) {
  const std::string_view hex =
      "45680030fe9f40003e1126b40a0002010a000101c00112b7001c00001100ffff00000011000000671f000001"
      "9aceb932";
  Bytes frame(12, 2);
  Append(frame, 0x0800, 2);
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    frame.push_back(
        static_cast<std::uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  const auto packet = ParseRoce(frame.data(), static_cast<std::uint32_t>(frame.size()));
  ASSERT_TRUE(packet);
  EXPECT_EQ(Load32(packet.icrc()), 0x32b9ce9aU);
  RewriteSourcePort(packet, Swap16(50'000), Patch());
  EXPECT_EQ(packet.source_port(), 50'000);
  EXPECT_EQ(Load32(packet.icrc()), 0xf56c121aU);
  RewriteSourcePort(packet, Swap16(0xC001), Patch());
  EXPECT_EQ(Load32(packet.icrc()), 0x32b9ce9aU);
}

RoceFrame RandomFrame(std::mt19937_64& random) {
  const auto below = [&random](std::uint64_t limit) { return random() % limit; };
  RoceFrame frame;
  const std::uint64_t tags = below(4);
  for (std::uint64_t i = 0; i < tags; ++i) {
    frame.vlan_types.push_back(i + 1 < tags ? std::uint16_t{0x88A8} : std::uint16_t{0x8100});
  }
  if (below(2) == 0) {
    frame.option_bytes = below(4) == 0 ? static_cast<std::uint32_t>(4 * below(11)) : 0;
  } else {
    frame.source = "fd00::1:2";
    frame.destination = "fd00:1::77";
    if (below(4) == 0) frame.extensions = {0, 60};
  }
  frame.hop_limit = static_cast<std::uint8_t>(random());
  frame.source_port = static_cast<std::uint16_t>(random());
  frame.udp_checksum = below(2) == 0;
  frame.opcode = static_cast<std::uint8_t>(random());
  frame.destination_qpn = static_cast<std::uint32_t>(below(1U << 24));
  frame.psn = static_cast<std::uint32_t>(below(1U << 24));
  // Mostly short, so that a million of them are quick; up to jumbo frames.
  frame.payload.resize(4 * below(below(50) == 0 ? 2300 : 40));
  for (std::size_t i = 0; i < frame.payload.size(); i += 4) {
    frame.payload[i] = static_cast<std::uint8_t>(random());
  }
  frame.padding = static_cast<std::uint32_t>(below(3));
  return frame;
}

// Checks CRC and UDP checksum against those computed from the whole packet.
void ExpectWhole(const BuiltFrame& frame, bool has_checksum) {
  ASSERT_EQ(StoredIcrc(frame), ReferenceIcrc(frame));
  const std::uint16_t checksum = Get16(frame.bytes, frame.udp + 6);
  if (!has_checksum) {
    ASSERT_EQ(checksum, 0);
  } else {
    ASSERT_EQ(checksum, ReferenceUdpChecksum(frame));
  }
}

TEST(SourcePort, KeepsBothChecksumsOfAMillionRandomPackets) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  // 200,000 packets with five ports each, one after the other.
  for (int i = 0; i < 200'000; ++i) {
    const RoceFrame frame = RandomFrame(random);
    BuiltFrame built = Build(frame);
    const auto packet = Parse(built);
    ASSERT_TRUE(packet);
    Bytes expected = built.bytes;
    for (int change = 0; change < 5; ++change) {
      const auto port = static_cast<std::uint16_t>(random());
      RewriteSourcePort(packet, Swap16(port), Patch());
      ASSERT_EQ(packet.source_port(), port);
      ASSERT_NO_FATAL_FAILURE(ExpectWhole(built, frame.udp_checksum));
    }
    // Only port, checksum and CRC may differ.
    Put16(expected, built.udp, Get16(built.bytes, built.udp));
    Put16(expected, built.udp + 6, Get16(built.bytes, built.udp + 6));
    for (std::size_t at = built.end - 4; at < built.end; ++at) expected[at] = built.bytes[at];
    ASSERT_EQ(built.bytes, expected);
  }
}

TEST(SourcePort, OfPacketsBeyondTheTables) {
  for (const std::size_t payload : {9'600U, 9'604U, 9'608U, 9'612U, 20'000U, 65'480U}) {
    BuiltFrame frame = Build({.udp_checksum = true, .payload = Bytes(payload, 0xA7)});
    const auto packet = Parse(frame);
    ASSERT_TRUE(packet) << payload;
    RewriteSourcePort(packet, 0xFFFF, Patch());
    ExpectWhole(frame, true);
    RewriteSourcePort(packet, Swap16(1), Patch());
    ExpectWhole(frame, true);
  }
}

TEST(SourcePort, AgreesWithTheCrcOfProbes) {
  BuiltFrame frame = Build({});
  RewriteSourcePort(Parse(frame), Swap16(61'234), Patch());
  const std::span<const std::uint8_t> ip(frame.bytes.data() + frame.ip, frame.end - frame.ip - 4);
  EXPECT_EQ(StoredIcrc(frame), agent::ComputeIcrc(ip));
}

TEST(SourcePort, NeverHidesThatAPacketWasBroken) {
  BuiltFrame frame = Build({});
  frame.bytes[frame.udp + 30] ^= 0x10;
  RewriteSourcePort(Parse(frame), Swap16(50'001), Patch());
  EXPECT_NE(StoredIcrc(frame), ReferenceIcrc(frame));
}

// A checksum of zero is sent as all ones, as zero means "no checksum".
TEST(SourcePort, NeverLosesAChecksum) {
  BuiltFrame frame = Build({.udp_checksum = true});
  int all_ones = 0;
  for (std::uint32_t port = 0; port < 0x10000; ++port) {
    RewriteSourcePort(Parse(frame), Swap16(static_cast<std::uint16_t>(port)), Patch());
    const std::uint16_t checksum = Get16(frame.bytes, frame.udp + 6);
    ASSERT_NE(checksum, 0) << port;
    if (checksum == 0xFFFF) {
      ++all_ones;
      ASSERT_EQ(ReferenceUdpChecksum(frame), 0xFFFF);
    }
  }
  EXPECT_GT(all_ones, 0);
}

}  // namespace
}  // namespace espalier::dpdk
