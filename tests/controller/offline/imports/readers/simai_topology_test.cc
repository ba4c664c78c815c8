#include "controller/offline/imports/readers/simai_topology.h"

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

TEST(SimaiTopology, MakesServersOfGpusNicsAndNvSwitches) {
  const auto cabling = ReadSimaiTopology(Example("simai.txt"), "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  ASSERT_EQ(cabling->cables.size(), 14U);
  EXPECT_EQ(Describe(*cabling).substr(0, 40), "server0/gpu0:-nvswitch0: 2880\nserver0/gp");
  EXPECT_EQ(cabling->cables[5].a.device, "server0/nic0");
  EXPECT_EQ(cabling->cables[5].b.device, "switch0");
  EXPECT_EQ(cabling->devices[5].host, "server1");  // nvswitch1, by its GPUs
  EXPECT_EQ(cabling->devices[8].host, "");
}

TEST(SimaiTopology, NamesThePlaceOfEveryError) {
  const std::string good = Example("simai.txt");
  ExpectErrors(ReadSimaiTopology,
               {{"", "1:1: the two lines of numbers"},
                {"9 2 2 3\n4\n", "1:1: the first line is not: nodes"},
                {With(good, "9 2 2 3 10", "9 2 2 x 10"), "1:7: \"x\" is not a whole number"},
                {With(good, "9 2 2 3 10", "3 2 2 3 10"), "1:1: fewer nodes than switches"},
                {With(good, "9 2 2 3 10", "9 3 2 3 10"), "1:3: 4 GPUs are no whole number"},
                {With(good, "9 2 2 3 10", "9 2 2 3 11"), "1:9: the first line has 11 links, but"},
                {With(good, "4 5 6 7 8", "4 5 6 7"), "2:1: 4 numbers of switches instead of 5"},
                {With(good, "4 5 6 7 8", "4 5 6 7 7"), "2:9: switch 7 is listed twice"},
                {With(good, "4 5 6 7 8", "4 5 6 7 9"), "2:9: \"9\" is not a whole number from 0"},
                {With(good, "0 4 2880Gbps", "0 4 fast"), "3:5: \"fast\" is not a rate"},
                {With(good, "0 4 2880Gbps", "0 4"), "3:1: the line is not: from to"},
                {With(good, "0 4 2880Gbps", "0 -4 2880Gbps"), "3:3: \"-4\" is not a whole"}});
}

}  // namespace
}  // namespace espalier::imports
