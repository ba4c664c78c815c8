#include "controller/offline/imports/readers/lldp_neighbours.h"

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

TEST(LldpNeighbours, ReadsNeighboursOfTheDeviceThatTheFileIsNamedAfter) {
  const auto cabling = ReadLldpNeighbours(Example("leaf0.json"), "folder/leaf0.json");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling),
            "leaf0:Ethernet0-h0.example.com:eth0 100\nleaf0:Ethernet48-spine0:Eth1/1\n");
  EXPECT_TRUE(cabling->cables[0].is_rate_weak);
  EXPECT_FALSE(cabling->cables[0].b.is_alias);
  EXPECT_TRUE(cabling->cables[1].b.is_alias);
  ASSERT_EQ(cabling->devices.size(), 3U);
  EXPECT_EQ(cabling->devices[1].kind, DeviceKind::kHost);
  EXPECT_EQ(cabling->devices[2].kind, DeviceKind::kSwitch);
  EXPECT_EQ(cabling->devices[2].chassis_id, "02:00:00:00:00:aa");
  ASSERT_EQ(cabling->remarks.size(), 2U);
  EXPECT_NE(cabling->remarks[0].find("the neighbours of leaf0, by the name"), std::string::npos);
  EXPECT_NE(cabling->remarks[1].find("mgmt0 of leaf0 has several neighbours"), std::string::npos);
}

TEST(LldpNeighbours, PrefersTheNameInTheFileAndSaysWhereAPortHasNone) {
  const auto cabling = ReadLldpNeighbours(
      R"({"local-chassis":[{"chassis":[{"name":[{"value":"h7"}]}]}],
          "lldp":[{},{"interface":[{"name":"e0","chassis":[{"id":[{"value":"02:00"}]}],
          "port":[{"id":[{"type":"mac","value":"02:01"}]}]}]}]})",
      "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "h7:e0-02:00:02:01\n");
  ASSERT_EQ(cabling->remarks.size(), 1U);
  EXPECT_NE(cabling->remarks[0].find("only a MAC address"), std::string::npos);
}

TEST(LldpNeighbours, NamesThePlaceOfEveryError) {
  const std::string open = R"({"lldp":[{"interface":[{"name":"e0",)";
  ExpectErrors(ReadLldpNeighbours,
               {{"", "1:1: "},
                {"[]", "1:1: no member \"lldp\" (write the file with lldpcli -f json0"},
                {R"({"lldp":{"interface":{}}})", "1:9: not a list, as in the format json"},
                {R"({"lldp":[{"interface":{"e0":{}}}]})", "1:23: not a list, as in the"},
                {R"({"lldp":[{"interface":[{"chassis":[]}]}]})", "1:24: the interface has no name"},
                {open + R"("port":[{}]}]}]})", "1:24: the neighbour of \"e0\" has no chassis"},
                {open + R"("chassis":[{}]}]}]})", "1:24: the neighbour of \"e0\" has no port"},
                {open + R"("chassis":[{}],"port":[{}]}]}]})",
                 "1:48: the neighbour of \"e0\" has neither a name nor an id"},
                {open + R"("chassis":[{"name":[{"value":"x"}]}],"port":[{}]}]}]})",
                 "1:82: the port of \"x\" behind \"e0\" has no id"},
                {R"({"lldp":[{"interface":[{"name":"e0","name":"e1"}]}]})", "1:37: duplicate key"},
                {R"({"lldp":[)" + std::string(100, '['), "1:"},
                {R"({"lldp":[]} x)", "1:13: "}});
}

}  // namespace
}  // namespace espalier::imports
