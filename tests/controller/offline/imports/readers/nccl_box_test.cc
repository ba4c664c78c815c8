#include "controller/offline/imports/readers/nccl_box.h"

#include <fmt/format.h>

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

TEST(NcclBox, ReadsGpusNicsBridgesAndNvSwitches) {
  const auto cabling = ReadNcclBox(Example("box.xml"), "dir/box.xml");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling),
            "box/pci-0000:1a:00.0:-box/cpu0: 384\nbox/gpu0:-box/pci-0000:1a:00.0: 384\n"
            "box/mlx5_0:-box/pci-0000:1a:00.0: 384\nbox/gpu1:-box/cpu1: 384\n"
            "box/gpu0:-box/nvswitch: 2966.4\nbox/gpu1:-box/nvswitch: 2966.4\n"
            "box/cpu0:-box/cpu1: 176\n");
  ASSERT_EQ(cabling->ports.size(), 1U);
  EXPECT_EQ(FormatGbps(*cabling->ports[0].rate), "400");
  ASSERT_EQ(cabling->devices.size(), 7U);
  EXPECT_EQ(cabling->devices[2].kind, DeviceKind::kCompute);
  EXPECT_EQ(cabling->devices[3].kind, DeviceKind::kNic);
  EXPECT_EQ(cabling->devices[3].rdma_device, "mlx5_0");
  EXPECT_EQ(cabling->devices[3].host, "box");
}

// As in Azure's files: only PCI functions; and one host's GPUs joined by NVLinks.
TEST(NcclBox, CountsFunctionsByClassAndLinksGpusOnce) {
  const auto azure = ReadNcclBox(
      R"(<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
         <pci busid="f:1" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="8">
         <pci busid="1:0" class="0x030200" link_speed="" link_width="0"/>
         <pci busid="2:0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
         <pci busid="3:0" class="0x010802"/></pci></cpu></system>)",
      "a.xml");
  ASSERT_TRUE(azure.has_value()) << azure.error().message;
  EXPECT_EQ(Describe(*azure),
            "a/pci-f:1:-a/cpu0: 96\na/gpu0:-a/pci-f:1: 96\na/nic0:-a/pci-f:1: 384\n");
  EXPECT_EQ(azure->remarks.size(), 4U);  // 8 GT/s assumed, no speed, another device, the name
  const auto pair = ReadNcclBox(
      R"(<system version="1"><cpu numaid="0">
         <pci busid="A:0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
         <gpu dev="4" sm="80"><nvlink target="b:0" count="12" tclass="0x030200"/></gpu></pci>
         <pci busid="B:0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
         <gpu dev="5" sm="80"><nvlink target="a:0" count="12" tclass="0x030200"/>
         <nvlink target="c:0" count="1" tclass="0x030200"/><c2c bw="1000" count="10"/></gpu></pci>
         <nic><net name="mlx5_0" speed="100000"/><net name="mlx5_1" speed="100000"/></nic>
         </cpu></system>)",
      "b.xml");
  ASSERT_TRUE(pair.has_value()) << pair.error().message;
  EXPECT_EQ(Describe(*pair),
            "b/gpu4:-b/cpu0: 192\nb/gpu5:-b/cpu0: 192\nb/mlx5_0:-b/cpu0: 100\n"
            "b/mlx5_1:-b/cpu0: 100\nb/gpu5:-b/cpu0: 80\nb/gpu4:-b/gpu5: 1920\n");
}

TEST(NcclBox, KeepsTheHostsOfAFileApart) {
  const auto cabling = ReadNcclBox(
      R"(<system version="1">
         <cpu host_hash="0x1" numaid="0"><pci busid="1:0" class="0x030000"/></cpu>
         <cpu host_hash="0x2" numaid="0"><pci busid="1:0" class="0x030000"/></cpu></system>)",
      "two.xml");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "two-0/gpu0:-two-0/cpu0: 96\ntwo-1/gpu0:-two-1/cpu0: 96\n");
}

TEST(NcclBox, NamesThePlaceOfEveryError) {
  const auto box = [](const std::string& inside) {
    return "<system version=\"1\">\n<cpu numaid=\"0\">" + inside + "</cpu></system>";
  };
  const auto gpu = [&](const std::string& inside) {
    return box("<pci busid=\"1:0\" class=\"0x030200\"><gpu>" + inside + "</gpu></pci>");
  };
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += fmt::format("<pci class=\"0x060400\" busid=\"{}\">", i);
  for (int i = 0; i < 100; ++i) deep += "</pci>";
  ExpectErrors(
      ReadNcclBox,
      {{"", "1:1: "},
       {"<system", "1:7: "},
       {"<graphs version=\"1\"/>", "1:2: <graphs> is a plan of NCCL"},
       {"<topology/>", "1:2: expected one <system> element"},
       {"<system version=\"2\"/>", "1:2: version \"2\" is unknown"},
       {"<system version=\"1\"/>", "1:2: no <cpu> in <system>"},
       {box("</cpu><cpu numaid=\"0\">"), "2:24: \"f/cpu0\" is listed twice"},
       {box("<pci class=\"0x030200\"/>"), "2:18: a GPU without busid"},
       {box("<pci class=\"0x060400\"/>"), "2:18: a bridge without busid"},
       {box("<pci busid=\"1:0\" class=\"0x03\" link_width=\"64\"/>"), "2:18: 64 lanes"},
       {box("<pci busid=\"1:0\" class=\"0x03\" link_width=\"x\"/>"), "2:18: link_width=\"x\" is"},
       {gpu("<nvlink target=\"1:0\" count=\"1\" tclass=\"0x030200\"/>"),
        "2:57: an NVLink from the GPU to itself"},
       {gpu("<nvlink target=\"2:0\" count=\"0\" tclass=\"0x030200\"/>"), "2:57: 0 NVLinks"},
       {gpu("<c2c bw=\"0\"/>"), "2:57: bw and count are no bandwidth"},
       {box("<nic><net name=\"m\" speed=\"fast\"/></nic>"), "2:23: speed=\"fast\" is not"},
       {box("<nic><net name=\"m\"/><net name=\"m\"/></nic>"), "2:38: \"f/m\" is listed twice"},
       {box(deep), "2:"}});
}

}  // namespace
}  // namespace espalier::imports
