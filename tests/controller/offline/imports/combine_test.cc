#include "controller/offline/imports/combine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/files/topology_file.h"
#include "controller/offline/imports/formats.h"
#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

Cabling Read(std::string_view format, const std::string& text, const std::string& file) {
  auto cabling = FindFormat(format)->read(text, file);
  EXPECT_TRUE(cabling.has_value()) << cabling.error().message;
  return std::move(*cabling);
}

const std::string kHead = "a_device,a_port,b_device,b_port,gbps,a_address,b_address\n";

// The topology that the output is read back to.
fabric::Topology Reread(const Imported& imported) {
  auto topology = io::ParseTopology(io::FormatTopology(imported.spec), "made");
  EXPECT_TRUE(topology.has_value()) << topology.error().message;
  return std::move(*topology);
}

std::string Links(const fabric::Topology& topology) {
  std::string text;
  for (const fabric::Link& link : topology.links()) {
    text += fmt::format("{} {} ", link.id, FormatGbps(link.rate));
  }
  return text;
}

TEST(Combine, MakesTopologiesThatAreReadBackOfEveryExample) {
  const std::tuple<std::string_view, std::string, std::string> cases[] = {
      {"csv", "cables.csv",
       "h0--leaf0 100 h1--leaf1 100 leaf0--spine0 400 leaf0--spine1 400 leaf1--spine0 400 "
       "leaf1--spine1 400 "},
      {"dot", "ptm.dot",
       "server01--leaf01 25 server02--leaf02 25 leaf01--spine01 100 leaf02--spine01 100 "},
      {"lldp", "leaf0.json", "h0.example.com--leaf0 100 leaf0--spine0 100 "},
      {"sonic", "spine0.sonic.json", "leaf0--spine0 400 leaf1--spine0 400 "},
      {"sonic", "minigraph.xml", "leaf0--spine0 400 server0--leaf0 100 "},
      {"netbox", "netbox.csv", "h0--leaf0 100 leaf0--spine0 100 "},
      {"netbox", "netbox.json", "leaf0--spine0 100 h0--leaf0 100 leaf0--spine1 400 "},
      {"containerlab", "lab.clab.yml",
       "leaf1--spine1 100 leaf2--spine1 100 client1--leaf1 100 client2--leaf2 100 "},
      {"ibnetdiscover", "ib.txt", "host0--leaf0 400 leaf0--spine0 400 "},
      {"ibnetdiscover", "ibsim.txt", ""},
      {"ibnetdiscover", "ibsim-ports.txt",
       "Hca2--Hca2/2 10 Hca2/2--Switch2 10 Hca2--Hca2/1 10 Hca2/1--Switch2 10 Switch2--Switch1 10 "
       "Switch2--Switch1#2 10 Hca1--Hca1/2 10 Hca1/2--Switch1 10 Hca1--Hca1/1 10 Hca1/1--Switch1 "
       "10 "},
      {"simai", "simai.txt", ""},
      {"nccl", "box.xml", ""},
      {"floodns", "t.properties", "h0--tor0 2.5 h1--tor0 2.5 tor0--spine0 2.5 "},
  };
  for (const auto& [format, name, links] : cases) {
    const Cabling source = Read(format, Example(name), name);
    const auto imported = Combine({&source, 1}, {});
    ASSERT_TRUE(imported.has_value()) << name << imported.error().message;
    const fabric::Topology topology = Reread(*imported);
    if (links.empty()) continue;
    EXPECT_EQ(Links(topology), links) << name;
  }
}

TEST(Combine, JoinsFilesOfSeveralFormats) {
  const std::vector<Cabling> sources = {
      Read("lldp", Example("leaf0.json"), "leaf0.json"),
      Read("sonic", Example("spine0.sonic.json"), "spine0.sonic.json"),
      Read("csv", kHead + "H0,eth0,leaf0,Ethernet0,100,10.0.0.1,10.0.0.0\n", "hosts.csv")};
  const auto imported = Combine(sources, {.name = "fabric"});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  const fabric::Topology topology = Reread(*imported);
  EXPECT_EQ(topology.name(), "fabric");
  EXPECT_EQ(Links(topology), "h0.example.com--leaf0 100 leaf0--spine0 400 leaf1--spine0 400 ");
  const fabric::Link& host = topology.links()[0];
  EXPECT_EQ(host.a_address.ToString(), "10.0.0.1");
  EXPECT_EQ(host.b_address.ToString(), "10.0.0.0");
  EXPECT_EQ(topology.node(host.a).addresses.at(0).ToString(), "10.0.0.1");
  const fabric::Link& fabric = topology.links()[1];
  EXPECT_EQ(fabric.a_port, "Ethernet48");
  EXPECT_EQ(fabric.b_port, "Ethernet0");
  EXPECT_EQ(fabric.a_address.ToString(), "172.16.0.0");
  EXPECT_EQ(fabric.b_address.ToString(), "172.16.0.1");
  EXPECT_TRUE(imported->missing.empty()) << imported->missing.front();
}

TEST(Combine, GivesEachPortOfAHostWithSeveralCablesANic) {
  const Cabling source = Read("csv",
                              kHead +
                                  "h0,eth0,leaf0,swp1,100,10.0.0.1,\nleaf1,swp1,h0,eth1,200,,\n"
                                  "h1,eth0,leaf0,swp2,,10.0.1.1,\n",
                              "f");
  const auto imported = Combine({&source, 1}, {.rate = {50'000'000'000}});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  const fabric::Topology topology = Reread(*imported);
  EXPECT_EQ(Links(topology),
            "h0--h0/eth0 100 h0/eth0--leaf0 100 h0--h0/eth1 200 h0/eth1--leaf1 200 h1--leaf0 50 ");
  const auto nic = topology.FindNode("h0/eth0");
  ASSERT_TRUE(nic.has_value());
  EXPECT_EQ(topology.node(*nic).kind, fabric::NodeKind::kNic);
  EXPECT_EQ(topology.node(*nic).host, "h0");
  EXPECT_EQ(topology.node(*nic).addresses.at(0).ToString(), "10.0.0.1");
  const auto says = [](const std::vector<std::string>& sentences, std::string_view what) {
    return std::ranges::any_of(sentences, [&](const std::string& sentence) {
      return sentence.find(what) != std::string::npos;
    });
  };
  EXPECT_TRUE(says(imported->assumptions, "1 cable has 50 Gbit/s, as no file gives a rate"));
  EXPECT_TRUE(says(imported->assumptions, "is a NIC with an address of its own (no bond): h0"));
  EXPECT_TRUE(says(imported->missing, "1 of 3 NICs have no address"));
}

TEST(Combine, CablesTheNicsOfABoxWhoseInsideIsKnown) {
  const Cabling box = Read("nccl", Example("box.xml"), "box.xml");
  const auto with = [&](const std::string& port) {
    return std::vector<Cabling>{
        box, Read("csv", kHead + "box.example.com," + port + ",leaf0,swp1,,10.0.0.1,\n", "f")};
  };
  const auto sources = with("mlx5_0");
  const auto imported = Combine(sources, {});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  const fabric::Topology topology = Reread(*imported);
  EXPECT_FALSE(topology.FindNode("box").has_value());
  EXPECT_FALSE(topology.FindNode("box.example.com").has_value());
  const fabric::Link& cable = topology.links().back();
  EXPECT_EQ(cable.id, "box/mlx5_0--leaf0");
  EXPECT_EQ(FormatGbps(cable.rate), "400");  // the speed of the NIC
  EXPECT_EQ(topology.node(cable.a).addresses.at(0).ToString(), "10.0.0.1");
  const auto others = with("eth0");
  const auto wrong = Combine(others, {});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_TRUE(wrong.error().message.starts_with(
      "f:2:1: box.example.com has no NIC \"eth0\": its NICs are box/mlx5_0"))
      << wrong.error().message;
}

TEST(Combine, NamesWhatIsMissing) {
  const Cabling source =
      Read("csv", kHead + "h0,e,leaf0,p1,1,,\nleaf0,p2,spine0,p1,1,,10.0.0.1\n", "f");
  const auto imported = Combine({&source, 1}, {});
  ASSERT_TRUE(imported.has_value());
  ASSERT_EQ(imported->missing.size(), 2U);
  EXPECT_TRUE(imported->missing[0].starts_with("1 of 1 NICs have no address"));
  EXPECT_TRUE(imported->missing[0].ends_with(": h0"));
  EXPECT_TRUE(imported->missing[1].starts_with("1 of 2 ends of cables between switches have no"));
  EXPECT_TRUE(imported->missing[1].ends_with(": leaf0:p2"));
  const Cabling switches = Read("csv", kHead + "leaf0,p2,spine0,p1,1,10.0.0.0,10.0.0.1\n", "f");
  const auto bare = Combine({&switches, 1}, {});
  ASSERT_EQ(bare->missing.size(), 1U);
  EXPECT_TRUE(bare->missing[0].ends_with(": leaf0 and spine0"));
}

TEST(Combine, RefusesFilesWithoutCablesAndThoseThatContradict) {
  const Cabling empty = Read("csv", kHead, "f");
  EXPECT_TRUE(Combine({&empty, 1}, {}).error().message.starts_with("f: no cable is in the file ("));
  const std::vector<Cabling> sources = {Read("csv", kHead + "x,e0,y,p0,,,\n", "f"),
                                        Read("csv", kHead + "x,e0,z,p0,,,\n", "g")};
  EXPECT_TRUE(Combine(sources, {}).error().message.starts_with("g:2:1: x:e0 leads to z:p0, but"));
  const Cabling loop = Read("csv", kHead + "x,e0,y,p0,,,\ny,p1,x,e1,,,\n", "f");
  EXPECT_TRUE(Combine({&loop, 1}, {}).error().message.starts_with("nothing says whether x and y"));
}

}  // namespace
}  // namespace espalier::imports
