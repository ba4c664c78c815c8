#include "controller/offline/imports/readers/ib_discovery.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

// Both are of one fabric of ibsim: two switches with two cables, and hosts with two ports.
TEST(IbDiscovery, ReadsBothFormsAlike) {
  const auto full = ReadIbDiscovery(Example("ibsim.txt"), "f");
  ASSERT_TRUE(full.has_value()) << full.error().message;
  EXPECT_EQ(full->cables.size(), 12U);  // each by both ends
  EXPECT_TRUE(
      Describe(*full).starts_with("Switch2:1-Hca2:1 10\nSwitch2:2-Hca2:2 10\n"
                                  "Switch2:3-Switch1:3 10\n"));
  ASSERT_EQ(full->devices.size(), 4U);
  EXPECT_EQ(full->devices[0].kind, DeviceKind::kSwitch);
  EXPECT_EQ(full->devices[2].kind, DeviceKind::kHost);
  const auto ports = ReadIbDiscovery(Example("ibsim-ports.txt"), "f");
  ASSERT_TRUE(ports.has_value()) << ports.error().message;
  EXPECT_TRUE(ports->remarks.empty());
  const auto sorted = [](const Cabling& cabling) {
    std::vector<std::string> lines;
    std::istringstream text(Describe(cabling));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    std::ranges::sort(lines);
    return lines;
  };
  EXPECT_EQ(sorted(*ports), sorted(*full));
}

TEST(IbDiscovery, TakesTheSecondWordOfAnAdapterAsItsPort) {
  const auto full = ReadIbDiscovery(Example("ib.txt"), "f");
  ASSERT_TRUE(full.has_value()) << full.error().message;
  EXPECT_EQ(Describe(*full),
            "leaf0:1-host0:mlx5_0 400\nleaf0:5-spine0:1 400\nspine0:1-leaf0:5 400\n"
            "host0:mlx5_0-leaf0:1 400\n");
  const auto blanks = ReadIbDiscovery(
      "SW 0 1 0x9 4x EDR - CA 0 1 0x1 ( ' leaf0' - 'host0   ' )\n"
      "SW 0 2 0x9 4x EDR - CA 0 1 0x2 ( 'leaf0 ' - '  ' )\n",
      "f");
  ASSERT_TRUE(blanks.has_value()) << blanks.error().message;
  EXPECT_EQ(Describe(*blanks), "leaf0:1-host0:1 100\nleaf0:2-CA 0x2:1 100\n");
  // Two adapters of one description are told apart by their GUIDs.
  const auto twins = ReadIbDiscovery(
      "SW 0 1 0x9 4x EDR - CA 0 1 0x1 ( 'leaf0' - 'ConnectX' )\n"
      "SW 0 2 0x9 4x EDR - CA 0 1 0x2 ( 'leaf0' - 'ConnectX' )\n",
      "f");
  ASSERT_TRUE(twins.has_value()) << twins.error().message;
  EXPECT_EQ(Describe(*twins), "leaf0:1-CA 0x1:1 100\nleaf0:2-CA 0x2:1 100\n");
}

TEST(IbDiscovery, NamesNodesByGuidWhereDescriptionsRepeatAndLeavesAggregationOut) {
  const auto cabling = ReadIbDiscovery(
      "Switch 2 \"S-1\" # \"Quantum\" base\n[1] \"S-2\"[2] # \"Quantum\" lid 2 2xFDR10 s=1 w=2 "
      "v=4\n"
      "[2] \"H-3\"[1](4) # \"SHARP Aggregation Node\" lid 3 4xHDR\n"
      "Switch 2 \"S-2\" # \"Quantum\" base\nCa 2 \"H-3\" # \"SHARP Aggregation Node\"\n"
      "[1](4) \"S-1\"[2] # lid 3 lmc 0 \"Quantum\" lid 1 4x???\n"
      "Ca 2 \"H-5\" # \"h mlx5_1\"\n[2](6) \"S-2\"[1] # lid 3 lmc 0 \"Quantum\" lid 2 4x???\n",
      "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "S-1:1-S-2:2 20\nh:mlx5_1/2-S-2:1\n");
  ASSERT_EQ(cabling->remarks.size(), 2U);
  EXPECT_NE(cabling->remarks[0].find("S-1 and S-2 have no description of their own"),
            std::string::npos);
  EXPECT_NE(cabling->remarks[1].find("1 aggregation node"), std::string::npos);
}

TEST(IbDiscovery, NamesThePlaceOfEveryError) {
  const std::string node = "Switch 2 \"S-1\" # \"x\"\n";
  ExpectErrors(
      ReadIbDiscovery,
      {{"", "1:1: no switch and no channel adapter"},
       {"a_device,a_port\n", "1:1: \"a_device,a_port\" is no line of ibnetdiscover"},
       {"Switch 2 S-1\n", "1:10: the node has no GUID in quotes"},
       {node + node, "2:1: node \"S-1\" is listed twice"},
       {"[1] \"S-1\"[1]\n", "1:1: a port before the first node"},
       {node + "[x] \"S-2\"[1]\n", "2:4: expected the number of a port"},
       {node + "[1] S-2[1]\n", "2:5: expected the far node in quotes"},
       {node + "[1] \"S-2\"\n", "2:10: expected the number of the far port"},
       {node + "[1] \"S-2\"[1] # \"y\" lid 2 4xEDR\n", "2:1: node \"S-2\" is not in the file"},
       {"SW 1 5\n", "1:7: expected LID, port and GUID"},
       {"SW 1 5 0x2 4x EDR - CA 7\n", "1:25: expected LID, port and GUID"},
       {"SW 1 5 0x2 4x EDR - CA 7 1 0x1 ( 'x' )\n", "1:35: expected ( 'NODE' - 'NODE' )"},
       {"SW 1 5 0x2 4x EDR - SW 2 1 0x1 ( 'x' - 'y' )\n"
        "SW 1 6 0x2 4x EDR - SW 2 2 0x1 ( 'z' - 'y' )\n",
        "2:1: SW 0x2 is \"z\" here and \"x\" in line 1"}});
}

}  // namespace
}  // namespace espalier::imports
