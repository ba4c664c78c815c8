#include "controller/offline/imports/readers/netbox_cables.h"

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

TEST(NetboxCables, ReadsTheImportFormAndSaysWhatItLeavesOut) {
  const auto cabling = ReadNetboxCables(Example("netbox.csv"), "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "h0:eth0-leaf0:Ethernet0\nleaf0:Ethernet48-spine0:Ethernet0\n");
  ASSERT_EQ(cabling->remarks.size(), 3U);
  EXPECT_NE(cabling->remarks[0].find("not connected yet: leaf0:Ethernet56"), std::string::npos);
  EXPECT_NE(cabling->remarks[1].find("do not join interfaces: leaf0:con"), std::string::npos);
  EXPECT_NE(cabling->remarks[2].find("patch panel"), std::string::npos);
}

TEST(NetboxCables, ReadsCablesAndInterfacesOfTheApiOfBothReleases) {
  const auto cabling = ReadNetboxCables(Example("netbox.json"), "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling),
            "leaf0:Ethernet4-spine0:Ethernet0\nh0:eth0-leaf0:Ethernet0\n"
            "leaf0:Ethernet8-spine1:Ethernet0\n");
  ASSERT_EQ(cabling->ports.size(), 2U);
  EXPECT_EQ(FormatGbps(*cabling->ports[0].rate), "100");
  EXPECT_EQ(FormatGbps(*cabling->ports[1].rate), "400");
  EXPECT_TRUE(cabling->remarks.empty());
}

TEST(NetboxCables, SaysThatPagesFollowAndThatABreakoutIsLeftOut) {
  const std::string end = R"({"object_type":"dcim.interface","object":)"
                          R"({"device":{"name":"x"},"name":"e0"}})";
  const auto cabling =
      ReadNetboxCables(R"({"next":"https://x/?offset=50","results":[{"id":3,"a_terminations":[)" +
                           end + R"(],"b_terminations":[)" + end + "," + end + "]}]}",
                       "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_TRUE(cabling->cables.empty());
  ASSERT_EQ(cabling->remarks.size(), 2U);
  EXPECT_NE(cabling->remarks[0].find("further pages"), std::string::npos);
  EXPECT_NE(cabling->remarks[1].find("several ends on a side"), std::string::npos);
  EXPECT_NE(cabling->remarks[1].find("cable 3"), std::string::npos);
}

TEST(NetboxCables, NamesThePlaceOfEveryError) {
  const std::string head =
      "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name\n";
  ExpectErrors(
      ReadNetboxCables,
      {{"", "1:1: the file is empty"},
       {"ID,Label,Termination A,Termination B\n", "1:10: an export of a view does not name"},
       {"side_a_device,side_a_type\n", "1:1: the column \"side_a_name\" is missing"},
       {head.substr(0, head.size() - 1) + ",side_a_name\n", "1:77: a second column"},
       {head + "x,dcim.interface,e0,y,dcim.interface\n", "2:23: the line has 5 fields"},
       {head + "x,dcim.interface,,y,dcim.interface,e1\n", "2:18: side_a_name is empty"},
       {"{}", "1:1: no member \"results\""},
       {R"({"results":[{"id":1,"a_terminations":[],"b_terminations":[]}]})",
        "1:13: cable 1 has an end without terminations"},
       {R"([{"termination_a_type":"dcim.interface","termination_a":{"name":"e0"},)"
        R"("termination_b_type":"dcim.interface","termination_b":{"name":"e0"}}])",
        "1:57: an interface without its name or its device's"},
       {R"([{"name":"e0","device":{"name":"x"},"speed":-5}])", "1:45: speed \"-5\" is not"},
       {R"([{"name":"e0"}])", "1:2: an interface without its name or its device's"},
       {R"([{"name":"e0","device":{"name":"x"},"connected_endpoints":[{"name":"e1"}]}])",
        "1:60: an interface without"},
       {"[7]", "1:2: an interface without"}});
}

}  // namespace
}  // namespace espalier::imports
