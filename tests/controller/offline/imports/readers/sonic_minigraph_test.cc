#include "controller/offline/imports/readers/sonic_minigraph.h"

#include "controller/offline/imports/readers/sonic_config.h"
#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

TEST(SonicMinigraph, ReadsCablesTypesAndAddresses) {
  const auto cabling = ReadSonicConfig(Example("minigraph.xml"), "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "spine0:Eth1/1-leaf0:etp49 400\nleaf0:etp1-server0:eth0\n");
  EXPECT_EQ(cabling->cables[0].a.address.ToString(), "172.16.0.1");
  ASSERT_EQ(cabling->ports.size(), 1U);
  EXPECT_EQ(cabling->ports[0].addresses.at(0).ToString(), "172.16.0.0");
  ASSERT_EQ(cabling->devices.size(), 4U);
  EXPECT_EQ(cabling->devices[0].addresses.at(0).ToString(), "10.1.0.1");
  EXPECT_EQ(cabling->devices[1].role, fabric::SwitchRole::kLeaf);
  EXPECT_EQ(cabling->devices[2].role, fabric::SwitchRole::kSpine);
  EXPECT_EQ(cabling->devices[3].kind, DeviceKind::kHost);
  ASSERT_EQ(cabling->remarks.size(), 1U);
  EXPECT_NE(cabling->remarks[0].find("Vlan1000 of leaf0 has no cable of its own"),
            std::string::npos);
}

TEST(SonicMinigraph, KnowsTheTypesOfSonic) {
  EXPECT_EQ(SonicTypeOf("BackEndToRRouter").role, fabric::SwitchRole::kLeaf);
  EXPECT_EQ(SonicTypeOf("SpineRouter").role, fabric::SwitchRole::kCore);
  EXPECT_EQ(SonicTypeOf("MgmtToRRouter").kind, DeviceKind::kSwitch);
  EXPECT_EQ(SonicTypeOf("RegionalHub").kind, DeviceKind::kUnknown);
}

TEST(SonicMinigraph, NamesThePlaceOfEveryError) {
  const std::string good = Example("minigraph.xml");
  ExpectErrors(ReadSonicMinigraph,
               {{"", "1:1: "},
                {"<DeviceMiniGraph", "1:16: "},
                {"<system/>", "1:2: expected one <DeviceMiniGraph>"},
                {With(good, "  <Hostname>leaf0</Hostname>\n  <HwSku>", "  <HwSku>"),
                 "1:2: the switch has no"},
                {With(good, "<EndPort>etp49</EndPort>", ""), "31:8: a link without device or port"},
                {With(good, "<StartDevice>spine0<", "<StartDevice><"),
                 "31:8: a link without device or port"},
                {With(good, "400000", "fast"), "32:10: speed \"fast\" is not a positive"},
                {With(good, "172.16.0.0/31", "x"), "24:10: \"x\" is not an address"},
                {With(good, "10.1.0.1/32", ""), "17:10: \"\" is not an address"},
                {With(good, "<EndPeer>172.16.0.1", "<EndPeer>"), "5:8: \"\" is not an address"},
                {good.substr(0, 900), "21:11: Start-end tags mismatch"}});
}

}  // namespace
}  // namespace espalier::imports
