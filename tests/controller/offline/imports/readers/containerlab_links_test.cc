#include "controller/offline/imports/readers/containerlab_links.h"

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

TEST(ContainerlabLinks, ReadsBothFormsOfEndpoints) {
  const auto cabling = ReadContainerlabLinks(Example("lab.clab.yml"), "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling),
            "leaf1:e1-49-spine1:e1-1\nleaf2:e1-49-spine1:e1-2\nclient1:eth1-leaf1:e1-1\n"
            "client2:eth1-leaf2:e1-1\n");
  ASSERT_EQ(cabling->devices.size(), 4U);
  EXPECT_EQ(cabling->devices[0].role, fabric::SwitchRole::kLeaf);
  EXPECT_EQ(cabling->devices[1].kind, DeviceKind::kSwitch);
  EXPECT_EQ(cabling->devices[3].kind, DeviceKind::kHost);
  EXPECT_EQ(cabling->cables[3].at.line, 21);
  ASSERT_EQ(cabling->remarks.size(), 1U);
  EXPECT_NE(cabling->remarks[0].find("leaf1:mgmt0 to host:leaf1-mgmt"), std::string::npos);
}

TEST(ContainerlabLinks, NamesThePlaceOfEveryError) {
  const std::string head = "topology:\n  links:\n";
  ExpectErrors(
      ReadContainerlabLinks,
      {{"", "1:1: the file is empty"},
       {"nodes: [r1, r2]\nlinks: [r1-r2]\n", "1:1: no mapping \"topology\" (give a file of"},
       {"topology:\n  nodes: {}\n", "2:3: no sequence \"links\""},
       {head + "    - endpoints: [a:1]\n", "3:18: a link without two endpoints"},
       {head + "    - {}\n", "3:7: a link without two endpoints"},
       {head + "    - endpoints: [a:1, b]\n", "3:24: an endpoint is not \"NODE:PORT\""},
       {head + "    - endpoints: [\"a:\", b:1]\n", "3:19: an endpoint is not"},
       {head + "    - endpoints: [{node: a}, b:1]\n", "3:19: an endpoint is not"},
       {head + "    - &x [a]\n", "3:7: an anchor is not read"},
       {head + "    - *x\n", "3:7: an alias is not read"},
       {head + "  links: []\n", "3:3: duplicate key \"links\""},
       {head + "    - [\n", "4:1: "},
       {"a: 1\n---\nb: 2\n", "2:1: a second document"},
       {"? [a]\n: b\n", "1:3: a key that is no text"},
       {"a:\n\t- b\n", "2:1: "},
       {std::string(100, '['), "1:65: nested more than 64 levels deep"}});
}

}  // namespace
}  // namespace espalier::imports
