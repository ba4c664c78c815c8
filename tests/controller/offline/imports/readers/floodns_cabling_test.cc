#include "controller/offline/imports/readers/floodns_cabling.h"

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

// (floodns_topology_test covers the errors.)
TEST(FloodnsCabling, ReportsTheNodesAndLinksOfTheSimulator) {
  const auto cabling = ReadFloodnsCabling(Example("t.properties"), "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "h0:-tor0: 2.5\nh1:-tor0: 2.5\ntor0:-spine0: 2.5\n");
  EXPECT_EQ(cabling->devices[0].kind, DeviceKind::kCompute);
  EXPECT_EQ(cabling->devices[2].role, fabric::SwitchRole::kLeaf);
  ExpectErrors(ReadFloodnsCabling, {{"", "1:1: the line \"num_nodes=...\" is missing"}});
}

}  // namespace
}  // namespace espalier::imports
