#include "controller/offline/files/flow_file.h"

#include <gtest/gtest.h>

#include "common/fabric/builders.h"

namespace espalier::offline {
namespace {

class FlowFile : public testing::Test {
 protected:
  Result<FlowSet> Parse(const std::string& rows) const {
    return ParseFlows("flow,job,src,dst,bytes\n" + rows, "f.csv", topology_, paths_);
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}));
  fabric::PathTable paths_{topology_};
};

// (assign_commands_test covers the errors.)
TEST_F(FlowFile, KeepsTheOrderAndNumbersJobsByFirstMention) {
  const auto set = Parse("b,second,h0,h3,\na,first,h1,h2,0\nc,second,h3,h0,1125899906842624\n");
  ASSERT_TRUE(set.has_value()) << set.error().message;
  EXPECT_EQ(set->jobs, (std::vector<std::string>{"second", "first"}));
  ASSERT_EQ(set->flows.size(), 3U);
  EXPECT_EQ(set->flows[0].id + set->flows[1].id + set->flows[2].id, "bac");
  EXPECT_EQ(set->flows[0].job, 0U);
  EXPECT_EQ(set->flows[1].job, 1U);
  EXPECT_EQ(set->flows[2].job, 0U);
  EXPECT_EQ(set->flows[0].source, *topology_.FindNode("h0"));
  EXPECT_EQ(set->flows[0].destination, *topology_.FindNode("h3"));
  EXPECT_EQ(set->flows[0].bytes, std::nullopt);
  EXPECT_EQ(set->flows[1].bytes, 0);
  EXPECT_EQ(set->flows[2].bytes, kMaxFlowBytes);
}

TEST_F(FlowFile, IsEmptyWithAHeaderAloneAndRefusesBytesAboveTheLimit) {
  const auto none = Parse("");
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->flows.empty());
  EXPECT_TRUE(none->jobs.empty());
  const auto bytes = Parse("a,j,h0,h2,1125899906842625\n");
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().message,
            "f.csv:2:11: bytes is \"1125899906842625\" (write a whole number from 0 to "
            "1125899906842624)");
}

}  // namespace
}  // namespace espalier::offline
