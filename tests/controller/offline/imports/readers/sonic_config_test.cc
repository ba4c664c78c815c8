#include "controller/offline/imports/readers/sonic_config.h"

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

TEST(SonicConfig, ReadsPortsCablesRolesAndAddresses) {
  const auto cabling = ReadSonicConfig(Example("spine0.sonic.json"), "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "spine0:Ethernet0-leaf0:Ethernet48\nspine0:Ethernet4-leaf1:\n");
  EXPECT_EQ(cabling->cables[0].b.address.ToString(), "172.16.0.0");
  EXPECT_EQ(cabling->cables[1].b.address.ToString(), "172.16.0.2");
  ASSERT_EQ(cabling->devices.size(), 2U);
  EXPECT_EQ(cabling->devices[0].role, fabric::SwitchRole::kSpine);
  EXPECT_EQ(cabling->devices[0].addresses.at(0).ToString(), "10.1.0.9");
  EXPECT_EQ(cabling->devices[1].role, fabric::SwitchRole::kLeaf);
  ASSERT_EQ(cabling->ports.size(), 2U);
  EXPECT_EQ(cabling->ports[1].alias, "Eth1/2");
  EXPECT_EQ(FormatGbps(*cabling->ports[1].rate), "400");
  EXPECT_EQ(cabling->ports[1].addresses.at(0).ToString(), "172.16.0.3");
  ASSERT_EQ(cabling->remarks.size(), 2U);
  EXPECT_NE(cabling->remarks[0].find("at Ethernet4 has no name"), std::string::npos);
  EXPECT_NE(cabling->remarks[1].find("does not hash source ports"), std::string::npos);
}

TEST(SonicConfig, ReadsNeighboursByNameChannelsAndUnnumberedLinks) {
  const auto cabling = ReadSonicConfig(
      R"({"DEVICE_METADATA":{"localhost":{"hostname":"s","type":"SpineRouter"}},"PORT":null,
          "DEVICE_NEIGHBOR":{"h0":{"local_port":"E0","port":"eth0"}},
          "DEVICE_NEIGHBOR_METADATA":{"h0":{"type":"Server"},"other":{"type":"Server"}},
          "PORTCHANNEL_MEMBER":{"PC1|E8":{},"PC2|E9":{},"PC2|E10":{}},
          "PORTCHANNEL_INTERFACE":{"PC1|10.0.0.1/31":{},"PC2|10.0.0.3/31":{}},
          "INTERFACE":{"E0":{"ipv6_use_link_local_only":"enable"}},
          "BGP_NEIGHBOR":{"default|10.0.0.0":{"name":"t","local_addr":"10.0.0.1"}},
          "SWITCH_HASH":{"GLOBAL":{"ecmp_hash":"SRC_IP,L4_SRC_PORT"}}})",
      "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "s:E0-h0:eth0\ns:E8-t:\n");
  ASSERT_EQ(cabling->devices.size(), 2U);
  EXPECT_EQ(cabling->devices[0].role, fabric::SwitchRole::kCore);
  EXPECT_EQ(cabling->devices[1].kind, DeviceKind::kHost);
  ASSERT_EQ(cabling->remarks.size(), 2U);
  EXPECT_NE(cabling->remarks[0].find("PC2 of s has 2 members"), std::string::npos);
  EXPECT_NE(cabling->remarks[1].find("E0 of s is unnumbered"), std::string::npos);
}

TEST(SonicConfig, NamesThePlaceOfEveryError) {
  const std::string self = R"({"DEVICE_METADATA":{"localhost":{"hostname":"s"}},)";
  const std::string port = self + R"("PORT":{"E0":{}},)";
  ExpectErrors(
      ReadSonicConfig,
      {{"{}", "1:1: no DEVICE_METADATA with localhost"},
       {R"({"DEVICE_METADATA":{"localhost":{}}})", "1:33: the switch has no hostname"},
       {self + R"("PORT":[]})", "1:58: PORT is not an object"},
       {self + R"("PORT":{"E0":{"speed":"fast"}}})", "1:73: speed \"fast\" is not a positive"},
       {self + R"("PORT":{"E0":{"speed":"-1"}}})", "1:73: speed \"-1\" is not a positive"},
       {port + R"("INTERFACE":{"E0|10.0.0":{}}})", "1:81: \"10.0.0\" is not an address"},
       {port + R"("INTERFACE":{"E1|10.0.0.1/31":{}}})", "1:81: PORT has no \"E1\""},
       {port + R"("PORTCHANNEL_MEMBER":{"PC1":{}}})", "1:90: member \"PC1\" is not CHANNEL|PORT"},
       {port + R"("DEVICE_NEIGHBOR":{"E1":{"name":"t"}}})", "1:87: PORT has no \"E1\""},
       {port + R"("DEVICE_NEIGHBOR":{"E0":{"name":"t"},"t":{"local_port":"E0"}}})",
        "1:105: \"E0\" has a second neighbour"},
       {port + R"("BGP_NEIGHBOR":{"x":{"local_addr":"10.0.0.1"}}})", "1:84: \"x\" is not an"},
       {port + R"("BGP_NEIGHBOR":{"10.0.0.0":{"local_addr":"x"}}})", "1:95: \"x\" is not an"},
       {"[1]", "1:1: no DEVICE_METADATA"}});
}

}  // namespace
}  // namespace espalier::imports
