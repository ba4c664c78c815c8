#include "common/fabric/ecmp/hash_functions.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>
#include <vector>

#include "common/base/address/ip_address.h"

namespace espalier::fabric {
namespace {

std::vector<std::uint8_t> Bytes(std::string_view text) { return {text.begin(), text.end()}; }

// 0, 1, 2, ...
std::vector<std::uint8_t> Counting(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

// The example of the SipHash paper (appendix A) and the first entries of the reference table.
TEST(SipHash24, GivesThePublishedValues) {
  constexpr std::uint64_t kKey0 = 0x0706050403020100;
  constexpr std::uint64_t kKey1 = 0x0f0e0d0c0b0a0908;
  EXPECT_EQ(SipHash24(kKey0, kKey1, Counting(15)), 0xa129ca6149be45e5);
  EXPECT_EQ(SipHash24(kKey0, kKey1, Counting(0)), 0x726fdb47dd0e0e31);
  EXPECT_EQ(SipHash24(kKey0, kKey1, Counting(1)), 0x74f839c593dc67fd);
  EXPECT_EQ(SipHash24(kKey0, kKey1, Counting(8)), 0x93f5f5799a932462);
}

// The check values of the CRC catalogues.
TEST(Crc, GivesThePublishedCheckValues) {
  const auto check = Bytes("123456789");
  EXPECT_EQ(Crc16Ccitt(0xFFFF, check), 0x29B1);   // CRC-16/CCITT-FALSE
  EXPECT_EQ(Crc16Ccitt(0, check), 0x31C3);        // CRC-16/XMODEM
  EXPECT_EQ(Crc16Bisync(0, check), 0xBB3D);       // CRC-16/ARC
  EXPECT_EQ(Crc16Bisync(0xFFFF, check), 0x4B37);  // CRC-16/MODBUS
  EXPECT_EQ(~Crc32(0xFFFFFFFF, check), 0xCBF43926);
}

// The values that the test driver of lookup3.c states.
TEST(JenkinsLookup3, GivesThePublishedValues) {
  EXPECT_EQ(JenkinsLookup3(0, {}), 0xdeadbeefU);
  EXPECT_EQ(JenkinsLookup3(0xdeadbeef, {}), 0xbd5b7ddeU);
  const auto gettysburg = Bytes("Four score and seven years ago");
  EXPECT_EQ(JenkinsLookup3(0, gettysburg), 0x17770551U);
  EXPECT_EQ(JenkinsLookup3(1, gettysburg), 0xcd628161U);
}

TEST(XorFold32, ReadsWordsLittleEndian) {
  EXPECT_EQ(XorFold32({}), 0U);
  const std::uint8_t bytes[] = {1, 2, 3, 4, 0x10, 0, 0, 0x40};
  EXPECT_EQ(XorFold32(bytes), 0x04030201U ^ 0x40000010U);
}

TEST(XorFold16, AddsWordsWithoutCarry) {
  EXPECT_EQ(XorFold16({}), 0);
  const std::uint8_t bytes[] = {0x12, 0x34, 0xff, 0x00, 0x01};
  EXPECT_EQ(XorFold16(bytes), 0x1234 ^ 0xff00 ^ 0x0100);
}

struct RssVector {
  const char* source;
  const char* destination;
  std::uint16_t source_port;
  std::uint16_t destination_port;
  std::uint32_t addresses_only;
  std::uint32_t with_ports;
};

// Microsoft, "Verifying the RSS Hash Calculation".
constexpr RssVector kRssVectors[] = {
    {"66.9.149.187", "161.142.100.80", 2794, 1766, 0x323e8fc2, 0x51ccc178},
    {"199.92.111.2", "65.69.140.83", 14230, 4739, 0xd718262a, 0xc626b0ea},
    {"24.19.198.95", "12.22.207.184", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
    {"38.27.205.30", "209.142.163.6", 48228, 2217, 0x82989176, 0xafc7327f},
    {"153.39.163.191", "202.188.127.2", 44251, 1303, 0x5d1809c5, 0x10e828a2},
    {"3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 2794, 1766, 0x2cc18cd5, 0x40207d3d},
    {"3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 14230, 4739, 0x0f0c461c, 0xdde51bbf},
    {"3ffe:1900:4545:3:200:f8ff:fe21:67cf", "fe80::200:f8ff:fe21:67cf", 44251, 38024, 0x4b61e985,
     0x02d1feef},
};

TEST(Toeplitz, GivesThePublishedRssValues) {
  for (const RssVector& vector : kRssVectors) {
    std::vector<std::uint8_t> bytes;
    for (const char* text : {vector.source, vector.destination}) {
      const IpAddress address = *IpAddress::Parse(text);
      const auto skipped = address.IsV4() ? 12 : 0;
      bytes.insert(bytes.end(), address.bytes().begin() + skipped, address.bytes().end());
    }
    EXPECT_EQ(Toeplitz(bytes), vector.addresses_only) << vector.source;
    for (const unsigned port : {vector.source_port, vector.destination_port}) {
      bytes.push_back(static_cast<std::uint8_t>(port >> 8));
      bytes.push_back(static_cast<std::uint8_t>(port));
    }
    EXPECT_EQ(Toeplitz(bytes), vector.with_ports) << vector.source;
  }
}

}  // namespace
}  // namespace espalier::fabric
