#include "controller/offline/imports/discovered.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "common/fabric/topology_diff.h"
#include "controller/offline/imports/combine.h"
#include "controller/offline/imports/formats.h"
#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

using fabric::Topology;

Cabling Found() { return ReadDiscovery(Example("discovery.json"), "found.json").value(); }

Topology Build(fabric::TopologySpec spec) { return Topology::Build(std::move(spec)).value(); }

std::vector<std::string> Ids(const fabric::TopologySpec& spec) {
  std::vector<std::string> ids;
  for (const fabric::Node& node : spec.nodes) ids.push_back(node.id);
  std::ranges::sort(ids);
  return ids;
}

const std::string kHead = "a_device,a_port,b_device,b_port,gbps,a_address,b_address\n";

TEST(ReadDiscovery, MakesATopologyOfSwitchesLinksAndNics) {
  const auto imported = Combine(std::vector{Found()}, {.name = "found"});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  const Topology topology = Build(imported->spec);
  EXPECT_EQ(Ids(imported->spec), (std::vector<std::string>{"h0", "h1", "leaf-10-0-0-0",
                                                           "leaf-10-1-0-0", "spine-172-16-0-1"}));
  ASSERT_EQ(topology.links().size(), 4U);
  const auto spine = topology.FindInterface(IpAddress::Parse("172.16.1.1").value());
  ASSERT_TRUE(spine && spine->link);
  EXPECT_EQ(topology.link(*spine->link).id, "leaf-10-1-0-0--spine-172-16-0-1");
  const auto loopback = topology.FindInterface(IpAddress::Parse("192.168.0.1").value());
  ASSERT_TRUE(loopback.has_value()) << "an address of no link";
  EXPECT_EQ(topology.node(loopback->node).id, "leaf-10-0-0-0");
  EXPECT_TRUE(std::ranges::any_of(imported->remarks, [](const std::string& remark) {
    return remark.find("h2 (10.2.0.1)") != std::string::npos;
  }));
}

TEST(ReadDiscovery, RefusesBrokenFilesWithTheirPlaces) {
  ExpectErrors(
      ReadDiscovery,
      {{"{}", "1:1: no list \"switches\""},
       {R"({"switches": [], "links": [], "nics": {}})", "1:1: no list \"nics\""},
       {R"({"switches": [], "links": [7], "nics": []})", "1:28: not an object"},
       {R"({"switches": [{"id": "s", "addresses": ["x"]}], "links": [], "nics": []})",
        "1:41: not an address"},
       {R"({"switches": [], "links": [{"a": "s", "b": "t", "a_address": "1.2"}], "nics": []})",
        "1:28: \"1.2\" is no address"}});
}

TEST(Combine, NamesDiscoveredSwitchesByTheAddressesOfOtherFiles) {
  const auto cables = FindFormat("csv")->read(
      kHead + "leafA,swp1,spineA,swp1,400,172.16.0.0,172.16.0.1\n", "cables.csv");
  ASSERT_TRUE(cables.has_value());
  const auto imported = Combine(std::vector{Found(), *cables}, {.name = "found"});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  EXPECT_EQ(Ids(imported->spec),
            (std::vector<std::string>{"h0", "h1", "leaf-10-1-0-0", "leafA", "spineA"}));
  ASSERT_EQ(imported->spec.links.size(), 4U) << "the cable of both files is one";
  const Topology topology = Build(imported->spec);
  const fabric::Link& link = topology.link(*topology.FindLink("leafA--spineA"));
  EXPECT_EQ(FormatGbps(link.rate), "400");
  EXPECT_EQ(link.a_port, "swp1");
}

TEST(Combine, NamesALeafByWhatLldpSaysOnAHost) {
  const auto neighbours = FindFormat("lldp")->read(
      R"({"lldp": [{"interface": [{"name": "eth0",
          "chassis": [{"id": [{"type": "mac", "value": "02:00:00:00:00:aa"}], "name": [{"value": "leafA"}]}],
          "port": [{"id": [{"type": "ifname", "value": "swp7"}],
                    "auto-negotiation": [{"current": [{"value": "400GbaseLR4 - x"}]}]}]}]}]})",
      "h0.json");
  ASSERT_TRUE(neighbours.has_value()) << neighbours.error().message;
  const auto imported = Combine(std::vector{Found(), *neighbours}, {.name = "found"});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  ASSERT_EQ(imported->spec.links.size(), 4U);
  const Topology topology = Build(imported->spec);
  const fabric::Link& link = topology.link(topology.FindLink("h0--leafA").value());
  EXPECT_EQ(link.b_port, "swp7");
  EXPECT_EQ(FormatGbps(link.rate), "400");
  EXPECT_EQ(link.b_address, IpAddress::Parse("10.0.0.0").value());
}

TEST(AdoptNames, LeavesASwitchThatWouldHaveTwoNames) {
  Cabling found = Found();
  AdoptNames(found, {.by_address = {{IpAddress::Parse("172.16.0.1").value(), {"spineA"}},
                                    {IpAddress::Parse("172.16.1.1").value(), {"spineB"}}},
                     .by_host_port = {}});
  EXPECT_TRUE(std::ranges::any_of(
      found.devices, [](const DeviceFact& fact) { return fact.name == "spine-172-16-0-1"; }));
  ASSERT_FALSE(found.remarks.empty());
  EXPECT_NE(found.remarks.back().find("spineA (172.16.0.1) and spineB (172.16.1.1)"),
            std::string::npos)
      << found.remarks.back();
}

// What discovery finds of a given topology, without its names, ports and rates.
Cabling WithoutNames(const Topology& given) {
  Cabling cabling{.file = "found", .has_made_up_names = true};
  const auto name = [&](fabric::NodeId id) {
    const fabric::Node& node = given.node(id);
    return node.kind == fabric::NodeKind::kSwitch ? "x" + std::to_string(id.Index())
                                                  : fabric::HostOf(node);
  };
  for (std::size_t i = 0; i < given.nodes().size(); ++i) {
    const fabric::NodeId id(static_cast<std::int32_t>(i));
    const fabric::Node& node = given.node(id);
    const bool is_switch = node.kind == fabric::NodeKind::kSwitch;
    if (is_switch && !node.host.empty()) continue;
    cabling.devices.push_back({.name = name(id),
                               .kind = is_switch ? DeviceKind::kSwitch : DeviceKind::kHost,
                               .role = node.role});
  }
  for (const fabric::Link& link : given.links()) {
    if (link.b_address.IsNone()) continue;
    const bool is_host = given.node(link.a).kind != fabric::NodeKind::kSwitch;
    cabling.cables.push_back(
        {.a = {.device = name(link.a),
               .port = is_host ? "eth" + std::to_string(cabling.cables.size()) : "",
               .address = link.a_address},
         .b = {.device = name(link.b), .address = link.b_address}});
  }
  return cabling;
}

void ExpectNoDifference(const Topology& given, const Cabling& found) {
  Cabling named = found;
  AdoptNames(named, NamesIn(given));
  const auto imported = Combine(std::vector{named}, {.name = "found"});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  const Topology made = Build(CompleteFrom(imported->spec, given));
  for (const auto& change : fabric::DiffTopologies(given, made, true)) {
    ADD_FAILURE() << change.id << " " << fabric::TopologyChangeName(change.kind) << " "
                  << change.detail;
  }
}

TEST(CompleteFrom, LeavesNoDifferenceBetweenAFabricAndWhatIsFoundOfIt) {
  const Topology plain =
      Build(fabric::BuildLeafSpine({.spines = 3, .leaves = 2, .hosts_per_leaf = 2}).value());
  ExpectNoDifference(plain, WithoutNames(plain));
  const Topology rails = Build(fabric::BuildRails({.boxes = 2, .rails = 2, .spines = 2}).value());
  ExpectNoDifference(rails, WithoutNames(rails));
}

TEST(CompleteFrom, NamesSwitchesByTheirAddresses) {
  const Topology given =
      Build(fabric::BuildLeafSpine({.spines = 3, .leaves = 2, .hosts_per_leaf = 2}).value());
  const auto imported = Combine(std::vector{WithoutNames(given)}, {.name = "found"});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  const Topology made = Build(CompleteFrom(imported->spec, given));
  EXPECT_TRUE(fabric::DiffTopologies(given, made, true).empty());
}

TEST(CompleteFrom, KeepsWhatDiffers) {
  const Topology given =
      Build(fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}).value());
  Cabling found = WithoutNames(given);
  found.cables.pop_back();  // leaf1 to spine1
  AdoptNames(found, NamesIn(given));
  const auto imported = Combine(std::vector{found}, {.name = "found"});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  const Topology made = Build(CompleteFrom(imported->spec, given));
  const auto changes = fabric::DiffTopologies(given, made, true);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].id, "leaf1--spine1");
  EXPECT_EQ(changes[0].kind, fabric::TopologyChange::Kind::kRemoved);
}

}  // namespace
}  // namespace espalier::imports
