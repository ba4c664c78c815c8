#include "common/fabric/ecmp/ecmp_hash.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "common/fabric/ecmp/hash_functions.h"
#include "common/fabric/ecmp/path_map.h"
#include "tests/common/fabric/hash_names.h"

namespace espalier::fabric {
namespace {

FlowTuple SomeTuple() {
  FlowTuple tuple;
  tuple.source = *IpAddress::Parse("10.1.2.1");
  tuple.destination = *IpAddress::Parse("10.3.0.1");
  tuple.source_port = 0xC123;
  return tuple;
}

std::unique_ptr<EcmpHash> MakeOrDie(std::string_view name, std::uint64_t seed = 1) {
  auto hash = MakeEcmpHash({std::string(name), seed});
  EXPECT_TRUE(hash.has_value()) << hash.error().message;
  return std::move(*hash);
}

TEST(MakeEcmpHash, MakesEveryModelThatItNames) {
  for (const std::string& name : HashNames()) {
    const auto hash = MakeOrDie(name);
    EXPECT_EQ(hash->Choose(SomeTuple(), 1), 0U) << name;
    for (const std::size_t members : {2U, 3U, 64U}) {
      EXPECT_LT(hash->Choose(SomeTuple(), members), members) << name;
    }
  }
}

TEST(MakeEcmpHash, RefusesUnknownNamesAndSeeds) {
  EXPECT_EQ(MakeEcmpHash({"md5", 1}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MakeEcmpHash({"", 1}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MakeEcmpHash({"linux", 0}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(MakeEcmpHash({"linux", std::uint64_t{1} << 32}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(MakeEcmpHash({"crc16-ccitt", 0x10000}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(MakeEcmpHash({"crc32", 0}).has_value());
}

// The bytes that a switch hashes, composed by hand.
TEST(EcmpHash, HashesTheFieldsInNetworkOrder) {
  const std::vector<std::uint8_t> bytes = {10, 1, 2, 1, 10, 3, 0, 1, 0xC1, 0x23, 0x12, 0xB7, 17};
  EXPECT_EQ(MakeOrDie("crc32", 7)->Choose(SomeTuple(), 64), Crc32(7, bytes) % 64);
  EXPECT_EQ(MakeOrDie("crc32-high", 7)->Choose(SomeTuple(), 64), (Crc32(7, bytes) >> 16) % 64);
  EXPECT_EQ(MakeOrDie("crc16-ccitt", 7)->Choose(SomeTuple(), 60), Crc16Ccitt(7, bytes) % 60U);
  EXPECT_EQ(MakeOrDie("crc16-bisync", 7)->Choose(SomeTuple(), 60), Crc16Bisync(7, bytes) % 60U);
  EXPECT_EQ(MakeOrDie("jenkins", 7)->Choose(SomeTuple(), 60), JenkinsLookup3(7, bytes) % 60U);
  EXPECT_EQ(MakeOrDie("toeplitz", 7)->Choose(SomeTuple(), 60),
            (Toeplitz(ByteView(bytes).first(12)) ^ 7) % 60U);
  std::uint8_t fold = 0;
  for (const std::uint8_t byte : bytes) fold = static_cast<std::uint8_t>(fold ^ byte);
  EXPECT_EQ(MakeOrDie("xor8", 7)->Choose(SomeTuple(), 256), fold ^ 7U);
  EXPECT_EQ(MakeOrDie("xor4", 7)->Choose(SomeTuple(), 16), ((fold >> 4 ^ fold) & 15U) ^ 7U);
  EXPECT_EQ(MakeOrDie("xor1", 0)->Choose(SomeTuple(), 2),
            static_cast<unsigned>(__builtin_parity(fold)));
}

TEST(EcmpHash, HashesTheQueuePairWhereItIsGiven) {
  FlowTuple tuple = SomeTuple();
  for (const char* name : {"crc32", "jenkins", "xor16"}) {
    const auto hash = MakeOrDie(name);
    std::set<std::size_t> chosen;
    for (tuple.destination_qpn = 1; tuple.destination_qpn < 200; ++tuple.destination_qpn) {
      chosen.insert(hash->Choose(tuple, 16));
    }
    EXPECT_EQ(chosen.size(), 16U) << name;
  }
}

TEST(EcmpHash, IsLinearExactlyWhereItSaysSo) {
  for (const std::string& name : HashNames()) {
    const auto hash = MakeOrDie(name);
    FlowTuple tuple = SomeTuple();
    const auto choose = [&](unsigned port) {
      tuple.source_port = static_cast<std::uint16_t>(kFirstRocePort | port);
      return hash->Choose(tuple, 8);
    };
    int exceptions = 0;
    for (unsigned x = 0; x < kRocePortCount; x += 37) {
      for (unsigned bit = 0; bit < 14; ++bit) {
        const unsigned d = 1U << bit;
        if (choose(x ^ d) != (choose(x) ^ choose(d) ^ choose(0))) ++exceptions;
      }
    }
    EXPECT_EQ(exceptions == 0, hash->LinearValue(tuple).has_value()) << name;
  }
}

TEST(EcmpHash, SpreadsPortsEvenly) {
  for (const std::string& name : HashNames()) {
    if (name.starts_with("xor") && name != "xor16" && name != "xor8") continue;  // few bits
    const auto hash = MakeOrDie(name);
    FlowTuple tuple = SomeTuple();
    std::vector<double> count(8);
    for (unsigned port = kFirstRocePort; port <= 0xFFFF; ++port) {
      tuple.source_port = static_cast<std::uint16_t>(port);
      ++count[hash->Choose(tuple, 8)];
    }
    // Six standard deviations of a fair choice.
    for (const double c : count) EXPECT_NEAR(c, 2048, 6 * std::sqrt(2048.0 * 7 / 8)) << name;
  }
}

// The formula of the kernel's bonding driver, with numbers read little-endian from network order.
TEST(EcmpHash, FollowsABondOfLayer34) {
  const auto hash = MakeOrDie("bond-layer3+4", 0);
  const std::uint32_t source = 0x0102010A;       // 10.1.2.1
  const std::uint32_t destination = 0x0100030A;  // 10.3.0.1
  FlowTuple tuple = SomeTuple();
  for (unsigned port = kFirstRocePort; port < kFirstRocePort + 300; ++port) {
    tuple.source_port = static_cast<std::uint16_t>(port);
    std::uint32_t value = port >> 8 | (port & 0xFF) << 8 | 0xB712'0000;  // 4791 is 0x12B7
    value ^= destination ^ source;
    value ^= value >> 16;
    value ^= value >> 8;
    for (const std::size_t members : {2U, 3U, 4U}) {
      EXPECT_EQ(hash->Choose(tuple, members), (value >> 1) % members) << port;
    }
  }
}

// What a host sends itself is not mixed a second time.
TEST(EcmpHash, DiffersBetweenLinuxHostsAndRouters) {
  Node host{.id = "h0", .kind = NodeKind::kNic, .ecmp = EcmpSpec{"linux-l4", 7}};
  Node router{.id = "leaf0", .kind = NodeKind::kSwitch, .ecmp = EcmpSpec{"linux-l4", 7}};
  const auto of_host = MakeHashOf(host);
  const auto of_router = MakeHashOf(router);
  ASSERT_TRUE(of_host && of_router);
  FlowTuple tuple = SomeTuple();
  int equal = 0;
  for (unsigned port = kFirstRocePort; port < kFirstRocePort + 1000; ++port) {
    tuple.source_port = static_cast<std::uint16_t>(port);
    EXPECT_EQ((*of_router)->Choose(tuple, 2), MakeOrDie("linux-l4", 7)->Choose(tuple, 2));
    equal += (*of_host)->Choose(tuple, 2) == (*of_router)->Choose(tuple, 2) ? 1 : 0;
  }
  EXPECT_GT(equal, 400);
  EXPECT_LT(equal, 600);
  host.ecmp->seed = 0;
  EXPECT_FALSE(MakeHashOf(host)) << "Linux with seed 0 draws one";
}

TEST(EcmpHash, TreatsBothDirectionsAlikeOnLinux) {
  const auto hash = MakeOrDie("linux", 5);
  FlowTuple forth = SomeTuple();
  for (unsigned port = kFirstRocePort; port < kFirstRocePort + 200; ++port) {
    forth.source_port = static_cast<std::uint16_t>(port);
    FlowTuple back = forth;
    std::swap(back.source, back.destination);
    std::swap(back.source_port, back.destination_port);
    EXPECT_EQ(hash->Choose(forth, 8), hash->Choose(back, 8));
    back.protocol = 6;  // fields 0x33 leave the protocol out
    EXPECT_EQ(hash->Choose(forth, 8), hash->Choose(back, 8));
  }
}

}  // namespace
}  // namespace espalier::fabric
