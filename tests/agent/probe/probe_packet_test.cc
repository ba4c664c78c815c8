#include "agent/probe/sockets/probe_packet.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "agent/probe/sockets/icmp_parser.h"
#include "agent/probe/sockets/icrc.h"

namespace espalier::agent {
namespace {

using Packet = std::vector<std::uint8_t>;

constexpr std::uint32_t kNonce = 0xA1B2C3D4;

Packet FromHex(std::string_view hex) {
  Packet bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

IpAddress Address(const char* text) { return IpAddress::Parse(text).value(); }

std::uint32_t StoredIcrc(const Packet& packet) {
  std::uint32_t icrc = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    icrc |= std::uint32_t{packet[packet.size() - 4 + i]} << (8 * i);
  }
  return icrc;
}

std::uint32_t IcrcOf(const Packet& packet) {
  return ComputeIcrc(std::span(packet).first(packet.size() - 4));
}

// An acknowledgement captured from a soft-RoCE device.
Packet CapturedAck() {
  return FromHex(
      "45680030fe9f40003e1126b40a0002010a000101c00112b7001c0000"
      "1100ffff00000011000000671f0000019aceb932");
}

TEST(Icrc, AgreesWithACapturedPacket) {
  Packet packet = CapturedAck();
  EXPECT_EQ(IcrcOf(packet), 0x32b9ce9aU);
  EXPECT_EQ(StoredIcrc(packet), 0x32b9ce9aU);
  packet[20] = 50'000 >> 8;  // another source port
  packet[21] = 50'000 & 0xFF;
  EXPECT_EQ(IcrcOf(packet), 0xf56c121aU);
}

TEST(Icrc, DoesNotCoverWhatSwitchesChange) {
  for (const std::size_t byte : {1U, 8U, 10U, 11U, 26U, 27U, 32U}) {
    Packet packet = CapturedAck();
    packet[byte] ^= 0x5A;
    EXPECT_EQ(IcrcOf(packet), 0x32b9ce9aU) << byte;
  }
  for (const std::size_t byte : {2U, 4U, 9U, 12U, 19U, 20U, 23U, 25U, 28U, 33U, 43U}) {
    Packet packet = CapturedAck();
    packet[byte] ^= 0x5A;
    EXPECT_NE(IcrcOf(packet), 0x32b9ce9aU) << byte;
  }
}

Probe ProbeV4(std::uint8_t ttl) {
  return {.source = Address("10.0.0.1"),
          .destination = Address("10.1.0.1"),
          .source_port = 50'000,
          .ttl = ttl};
}

// The sum over pseudo-header and datagram, checksum included, which is all ones for a valid packet.
std::uint32_t SumOfUdp(const Packet& packet, std::size_t udp_at, std::size_t addresses_at) {
  std::uint32_t sum = 17 + static_cast<std::uint32_t>(packet.size() - udp_at);
  for (std::size_t i = addresses_at; i < packet.size(); i += 2) {
    sum += std::uint32_t{packet[i]} << 8 | packet[i + 1];
  }
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}

TEST(ProbePacket, HasTheHeadersAskedForAndAValidIcrc) {
  for (const int ttl : {1, 2, 3, 64, 255}) {
    const Probe probe{.source = Address("10.0.0.1"),
                      .destination = Address("10.1.0.1"),
                      .source_port = 50'000,
                      .destination_qpn = 0x123456,
                      .ttl = static_cast<std::uint8_t>(ttl)};
    const Packet packet = BuildProbePacket(probe, 77, kNonce);
    EXPECT_EQ(packet.size(), static_cast<std::size_t>(20 + 24 + 4 * ttl));
    EXPECT_EQ(packet[2] << 8 | packet[3], static_cast<int>(packet.size()));
    EXPECT_EQ(packet[4] << 8 | packet[5], 77);
    EXPECT_EQ(packet[8], ttl);
    EXPECT_EQ(packet[20] << 8 | packet[21], 50'000);
    EXPECT_EQ(packet[22] << 8 | packet[23], 4791);
    EXPECT_EQ(packet[24] << 8 | packet[25], 24 + 4 * ttl);
    EXPECT_EQ(packet[28], 0x04);
    EXPECT_EQ(packet[33] << 16 | packet[34] << 8 | packet[35], 0x123456);
    EXPECT_EQ(packet[37] << 16 | packet[38] << 8 | packet[39], 0) << "sequence number";
    EXPECT_EQ(FromHex("a1b2c3d4"), Packet(packet.begin() + 40, packet.begin() + 44));
    EXPECT_EQ(StoredIcrc(packet), IcrcOf(packet));
    EXPECT_EQ(SumOfUdp(packet, 20, 12), 0xFFFFU);
    const ProbeMark mark = MarkOf(packet);
    EXPECT_EQ(mark.head, 77U << 16 | static_cast<unsigned>(packet[26] << 8 | packet[27]));
    EXPECT_EQ(mark.nonce, kNonce);
  }
}

TEST(ProbePacket, HasAnotherChecksumForEachNonce) {
  std::set<std::uint32_t> heads;
  for (std::uint32_t nonce = 1; nonce <= 1'000; ++nonce) {
    heads.insert(MarkOf(BuildProbePacket(ProbeV4(2), 1, nonce * 0x9E3779B1U)).head);
  }
  EXPECT_GT(heads.size(), 950U);  // of 65,535
}

TEST(ProbePacket, OfIpv6HasAValidUdpChecksum) {
  const Probe probe{.source = Address("fd00::1"),
                    .destination = Address("fd00:1::1"),
                    .source_port = 50'001,
                    .ttl = 3};
  const Packet packet = BuildProbePacket(probe, 1, kNonce);
  ASSERT_EQ(packet.size(), 40u + 24 + 12);
  EXPECT_EQ(packet[0], 0x60);
  EXPECT_EQ(packet[6], 17);
  EXPECT_EQ(packet[7], 3);
  EXPECT_EQ(StoredIcrc(packet), IcrcOf(packet));
  EXPECT_EQ(SumOfUdp(packet, 40, 8), 0xFFFFU);
  EXPECT_EQ(MarkOf(packet).head, static_cast<unsigned>(packet[46] << 8 | packet[47]));
  EXPECT_EQ(MarkOf(packet).nonce, kNonce);
}

// An ICMP error from `responder` about `quote`.
Packet IcmpV4(std::string_view responder, std::uint8_t type, std::uint8_t code, Packet quote,
              std::size_t options_bytes = 0) {
  Packet packet(20 + options_bytes, 0);
  packet[0] = static_cast<std::uint8_t>(0x40 | (packet.size() / 4));
  packet[9] = 1;
  const std::uint32_t from = IpAddress::Parse(responder).value().V4();
  for (std::size_t i = 0; i < 4; ++i)
    packet[12 + i] = static_cast<std::uint8_t>(from >> (24 - 8 * i));
  packet.insert(packet.end(), {type, code, 0, 0, 0, 0, 0, 0});
  packet.insert(packet.end(), quote.begin(), quote.end());
  return packet;
}

Packet IcmpV6(std::uint8_t type, std::uint8_t code, const Packet& quote) {
  Packet message(8 + quote.size(), 0);
  message[0] = type;
  message[1] = code;
  std::copy(quote.begin(), quote.end(), message.begin() + 8);
  return message;
}

Packet Quote(std::uint8_t ttl, std::size_t bytes = 28) {
  Packet packet = BuildProbePacket(ProbeV4(ttl), 1, kNonce);
  packet.resize(bytes);
  return packet;
}

TEST(IcmpParser, ReadsTimeExceeded) {
  for (const int ttl : {1, 2, 3, 255}) {
    const auto reply =
        ParseIcmpV4(IcmpV4("172.16.0.1", 11, 0, Quote(static_cast<std::uint8_t>(ttl))));
    ASSERT_TRUE(reply) << ttl;
    EXPECT_EQ(reply->source, Address("10.0.0.1"));
    EXPECT_EQ(reply->destination, Address("10.1.0.1"));
    EXPECT_EQ(reply->source_port, 50'000);
    EXPECT_EQ(reply->destination_port, 4791);
    EXPECT_EQ(reply->ttl, ttl);
    EXPECT_EQ(reply->responder, Address("172.16.0.1"));
    EXPECT_FALSE(reply->from_destination);
  }
}

TEST(IcmpParser, ReadsPortUnreachableLongQuotesAndOptions) {
  EXPECT_TRUE(ParseIcmpV4(IcmpV4("10.1.0.1", 3, 3, Quote(64)))->from_destination);
  EXPECT_TRUE(ParseIcmpV4(IcmpV4("10.1.0.1", 11, 0, Quote(64, 28 + 12 + 256))));
  EXPECT_EQ(ParseIcmpV4(IcmpV4("172.16.0.9", 11, 0, Quote(2), 40))->responder,
            Address("172.16.0.9"));
  Packet with_options = Quote(2);
  with_options[0] = 0x46;
  with_options.insert(with_options.begin() + 20, {1, 1, 1, 1});
  EXPECT_EQ(ParseIcmpV4(IcmpV4("172.16.0.9", 11, 0, with_options))->source_port, 50'000);
}

TEST(IcmpParser, ReadsTheMarkAsFarAsItIsQuoted) {
  const Packet probe = BuildProbePacket(ProbeV4(2), 0x1234, kNonce);
  const ProbeMark whole = MarkOf(probe);
  for (const std::size_t bytes : {28U, 40U, 43U, 44U, 52U}) {
    const Packet quote(probe.begin(), probe.begin() + static_cast<std::ptrdiff_t>(bytes));
    const auto reply = ParseIcmpV4(IcmpV4("172.16.0.1", 11, 0, quote));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->mark.head, whole.head);
    EXPECT_EQ(reply->mark.nonce, bytes < 44 ? 0 : kNonce) << bytes;
  }
  Packet filled(probe.begin(), probe.begin() + 28);
  filled.resize(128, 0);  // RFC 4884, section 3
  EXPECT_EQ(ParseIcmpV4(IcmpV4("172.16.0.1", 11, 0, filled))->mark.nonce, 0U);
}

TEST(IcmpParser, RefusesWhatIsNoAnswer) {
  const auto is_refused = [](const Packet& packet) { return !ParseIcmpV4(packet).has_value(); };
  EXPECT_TRUE(is_refused({}));
  EXPECT_TRUE(is_refused(IcmpV4("172.16.0.1", 0, 0, Quote(2)))) << "echo reply";
  EXPECT_TRUE(is_refused(IcmpV4("172.16.0.1", 3, 0, Quote(2)))) << "net unreachable";
  EXPECT_TRUE(is_refused(IcmpV4("172.16.0.1", 3, 1, Quote(2)))) << "host unreachable";
  EXPECT_TRUE(is_refused(IcmpV4("172.16.0.1", 11, 1, Quote(2)))) << "reassembly time exceeded";
  Packet quote = Quote(2);
  quote[9] = 6;
  EXPECT_TRUE(is_refused(IcmpV4("172.16.0.1", 11, 0, quote))) << "TCP quoted";
  quote = Quote(2);
  quote[7] = 1;
  EXPECT_TRUE(is_refused(IcmpV4("172.16.0.1", 11, 0, quote))) << "later fragment quoted";
  quote = Quote(2);
  quote[0] = 0x41;
  EXPECT_TRUE(is_refused(IcmpV4("172.16.0.1", 11, 0, quote))) << "header length";
  quote = Quote(2);
  quote[0] = 0x65;
  EXPECT_TRUE(is_refused(IcmpV4("172.16.0.1", 11, 0, quote))) << "IPv6 in IPv4";
  for (const int udp_bytes : {0, 8, 24, 25, 27, 24 + 4 * 256, 0xFFFF}) {
    quote = Quote(2);
    quote[24] = static_cast<std::uint8_t>(udp_bytes >> 8);
    quote[25] = static_cast<std::uint8_t>(udp_bytes);
    EXPECT_TRUE(is_refused(IcmpV4("172.16.0.1", 11, 0, quote))) << "length " << udp_bytes;
  }
}

TEST(IcmpParser, RefusesEveryTruncation) {
  const Packet whole = IcmpV4("172.16.0.1", 11, 0, Quote(2));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseIcmpV4(std::span(whole).first(size))) << size;
  }
  const Packet v6 = IcmpV6(3, 0,
                           BuildProbePacket({.source = Address("fd00::1"),
                                             .destination = Address("fd00:1::1"),
                                             .source_port = 50'000,
                                             .ttl = 2},
                                            1, kNonce));
  for (std::size_t size = 0; size < 56; ++size) {
    EXPECT_FALSE(ParseIcmpV6(Address("fd00::9"), std::span(v6).first(size))) << size;
  }
}

TEST(IcmpParser, ReadsIpv6) {
  const Packet probe = BuildProbePacket({.source = Address("fd00::1"),
                                         .destination = Address("fd00:1::1"),
                                         .source_port = 50'000,
                                         .ttl = 3},
                                        1, kNonce);
  const auto reply = ParseIcmpV6(Address("fd00::9"), IcmpV6(3, 0, probe));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->source, Address("fd00::1"));
  EXPECT_EQ(reply->destination, Address("fd00:1::1"));
  EXPECT_EQ(reply->source_port, 50'000);
  EXPECT_EQ(reply->ttl, 3);
  EXPECT_EQ(reply->responder, Address("fd00::9"));
  EXPECT_EQ(reply->mark.head, MarkOf(probe).head);
  EXPECT_EQ(reply->mark.nonce, kNonce);
  EXPECT_TRUE(ParseIcmpV6(Address("fd00:1::1"), IcmpV6(1, 4, probe))->from_destination);
  EXPECT_FALSE(ParseIcmpV6(Address("fd00::9"), IcmpV6(1, 0, probe))) << "no route";
  EXPECT_FALSE(ParseIcmpV6(Address("fd00::9"), IcmpV6(128, 0, probe))) << "echo";
  Packet extended = probe;
  extended[6] = 0;  // hop-by-hop options
  EXPECT_FALSE(ParseIcmpV6(Address("fd00::9"), IcmpV6(3, 0, extended)));
}

}  // namespace
}  // namespace espalier::agent
