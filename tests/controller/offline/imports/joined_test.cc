#include "controller/offline/imports/joined.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "controller/offline/imports/readers/csv_cables.h"

namespace espalier::imports {
namespace {

const std::string kHead = "a_device,a_port,b_device,b_port,gbps,a_address,b_address\n";

Cabling Table(const std::string& rows, const std::string& file = "f") {
  auto cabling = ReadCsvCables(kHead + rows, file);
  EXPECT_TRUE(cabling.has_value()) << cabling.error().message;
  return std::move(*cabling);
}

Cabling Empty(const std::string& file) {
  Cabling cabling;
  cabling.file = file;
  return cabling;
}

std::string Describe(const Joined& joined) {
  std::string text;
  for (const JoinedCable& cable : joined.cables) {
    for (const JoinedEnd* end : {&cable.a, &cable.b}) {
      text += joined.devices[end->device].name + ":" + end->port;
      if (!end->address.IsNone()) text += "@" + end->address.ToString();
      text += end == &cable.a ? " " : "";
    }
    text += cable.rate ? " " + FormatGbps(*cable.rate) + "\n" : "\n";
  }
  return text;
}

std::string Join(const std::vector<Cabling>& sources) {
  const auto joined = JoinSources(sources);
  return joined ? Describe(*joined) : joined.error().message;
}

TEST(Joined, TakesNamesWithoutCaseAndDomainAsOneDevice) {
  EXPECT_EQ(ComparedName("Leaf0.Example.com"), "leaf0");
  EXPECT_EQ(ComparedName("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(ComparedName(".x"), ".x");
  EXPECT_EQ(Join({Table("Leaf0.dc,e0,h0,p,100,10.0.0.0,\n", "x"),
                  Table("h0,p,LEAF0,e0,,,10.0.0.0\n", "y")}),
            "Leaf0.dc:e0@10.0.0.0 h0:p 100\n");
}

TEST(Joined, TakesReportsOfBothEndsAndOfSeveralFilesAsOneCable) {
  EXPECT_EQ(Join({Table("x,e0,y,p0,,,\ny,p0,x,e0,100,,10.0.0.1\n", "f"),
                  Table("x,e0,y,p0,100,,\nx,e1,y,p1,,,\n", "g")}),
            "x:e0@10.0.0.1 y:p0 100\nx:e1 y:p1\n");
}

TEST(Joined, JoinsPortsByAliasAndByAddress) {
  Cabling ports = Empty("ports");
  ports.ports.push_back({"y", "Ethernet4", "etp2", BitsPerSecond{25'000'000'000}, {}, {}});
  Cabling aliased = Empty("lldp");
  Cable cable;
  cable.a = {"x", "e0", false, {}};
  cable.b = {"y", "etp2", true, {}};
  cable.rate = BitsPerSecond{10'000'000'000};
  cable.is_rate_weak = true;
  aliased.cables.push_back(cable);
  EXPECT_EQ(Join({aliased, Table("y,Ethernet4,x,e0,,10.0.0.1,\n"), ports}),
            "x:e0 y:Ethernet4@10.0.0.1 25\n");
  // A file that uses the alias as a name may come first.
  Cabling named = Empty("minigraph");
  named.ports.push_back({"y", "etp2", "", {}, {*IpAddress::Parse("10.0.0.1")}, {}});
  EXPECT_EQ(Join({named, Table("x,e0,y,etp2,,,\n"), ports}), "x:e0 y:Ethernet4@10.0.0.1 25\n");
  // By address, where a file does not know the far port.
  Cabling bgp = Empty("bgp");
  cable.b = {"y", "", false, *IpAddress::Parse("10.0.0.1")};
  cable.rate.reset();
  bgp.cables.push_back(cable);
  EXPECT_EQ(Join({bgp, Table("y,Ethernet4,x,e0,,10.0.0.1,\n")}), "x:e0 y:Ethernet4@10.0.0.1\n");
  // An alias that nothing explains names the port.
  EXPECT_EQ(Join({aliased}), "x:e0 y:etp2 10\n");
}

// As LLDP of SONiC reports a cable from both ends: the far port by its alias.
Cabling Reports(int cables) {
  Cabling reports = Empty("f");
  for (int i = 0; i < cables; ++i) {
    for (const bool from_x : {true, false}) {
      Cable& cable = reports.cables.emplace_back();
      cable.a = {from_x ? "x" : "y", fmt::format("Ethernet{}", i), false, {}};
      cable.b = {from_x ? "y" : "x", fmt::format("alias{}", i), true, {}};
      cable.at.line = from_x ? 1 : 2;
    }
  }
  return reports;
}

TEST(Joined, TakesTheReportsOfBothEndsAsOneCableIfThereIsNoOther) {
  const Cabling one = Reports(1);
  const auto joined = JoinSources({&one, 1});
  ASSERT_TRUE(joined.has_value()) << joined.error().message;
  EXPECT_EQ(Describe(*joined), "x:Ethernet0 y:Ethernet0\n");
  ASSERT_EQ(joined->assumptions.size(), 1U);
  EXPECT_TRUE(joined->assumptions[0].ends_with(": x:Ethernet0 to y:alias0"));
  // Of parallel cables nothing says which reports are one.
  const std::string parallel = Join({Reports(2)});
  EXPECT_TRUE(parallel.starts_with(
      "f:2:1: the cable from y:Ethernet0 to x:alias0 and the one at f:1:1 may be one, as each"))
      << parallel;
  // With the aliases it is plain.
  Cabling aliases = Empty("a");
  for (const char* device : {"x", "y"}) {
    aliases.ports.push_back({device, "Ethernet0", "alias1", {}, {}, {}});
    aliases.ports.push_back({device, "Ethernet1", "alias0", {}, {}, {}});
  }
  EXPECT_EQ(Join({Reports(2), aliases}), "x:Ethernet0 y:Ethernet1\ny:Ethernet0 x:Ethernet1\n");
}

TEST(Joined, KeepsParallelCablesWithoutPorts) {
  Cabling plain = Empty("f");
  for (int i = 0; i < 2; ++i) {
    Cable& cable = plain.cables.emplace_back();
    cable.a.device = "x";
    cable.b.device = "y";
  }
  EXPECT_EQ(Join({plain}), "x: y:\nx: y:\n");
}

TEST(Joined, ListsContradictionsWithBothPlaces) {
  const std::string x = "x,e0,y,p0,100,10.0.0.1,\n";
  Cabling kinds = Empty("k");
  for (const DeviceKind kind : {DeviceKind::kSwitch, DeviceKind::kHost}) {
    DeviceFact& fact = kinds.devices.emplace_back();
    fact.name = "x";
    fact.kind = kind;
    fact.role = kind == DeviceKind::kSwitch ? fabric::SwitchRole::kLeaf : fabric::SwitchRole::kCore;
    fact.addresses = {*IpAddress::Parse("10.9.9.9")};
  }
  kinds.devices.back().at.line = 7;
  Cabling loopback = Empty("l");
  for (const char* name : {"x", "y"}) {
    DeviceFact& fact = loopback.devices.emplace_back();
    fact.name = name;
    fact.addresses = {*IpAddress::Parse("10.9.9.9")};
  }
  Cabling aliases = Empty("a");
  aliases.ports.push_back({"x", "e0", "one", BitsPerSecond{1}, {}, {}});
  aliases.ports.push_back({"x", "e1", "one", {}, {}, {2, 3}});
  aliases.ports.push_back({"x", "e0", "", BitsPerSecond{2}, {}, {3, 4}});
  Cabling chassis = Empty("c");
  for (const char* id : {"02:00", "02:01"}) {
    DeviceFact& fact = chassis.devices.emplace_back();
    fact.name = "localhost";
    fact.chassis_id = id;
  }
  const std::tuple<std::vector<Cabling>, std::string> cases[] = {
      {{chassis}, "c:1:1: localhost has the chassis id \"02:01\", but \"02:00\" at c:1:1 (if"},
      {{Table("x,e0,y,p0,,,\nx.a,e1,y,p1,,,\nx.b,e2,y,p2,,,\n")},
       "f:4:1: \"x.b\" differs from \"x.a\" at f:3:1 in its domain only"},
      {{Table(x), Table("z,p0,x,e0,,,\n", "g")},
       "g:2:1: x:e0 leads to z:p0, but to y:p0 at f:2:1 (correct one)"},
      {{Table(x + "x,e0,z,p0,,,\n")}, "f:3:1: x:e0 leads to z:p0, but to y:p0 at f:2:1 ("},
      {{Table(x + "x,e0,y,p0,,,\n")},
       "f:3:1: the cable from x:e0 to y:p0 is listed at f:2:1, too (remove one)"},
      {{Table("x,e0,X,e1,,,\n")}, "f:2:1: the cable joins x:e0 to itself"},
      {{Table("x,e0,x,e0,,,\n")}, "f:2:1: the cable joins x:e0 to itself"},
      {{Table(x), Table("x,e0,y,p0,40,,\n", "g")},
       "g:2:1: the cable from x:e0 to y:p0 has 40 Gbit/s, but 100 at f:2:1 (correct one)"},
      {{Table(x), Table("x,e0,y,p0,,10.0.0.3,\n", "g")},
       "g:2:1: x:e0 has the address 10.0.0.3, but 10.0.0.1 at f:2:1 (correct one)"},
      {{Table(x + "z,e0,y,p1,,10.0.0.1,\n")},
       "f:3:1: z:e0 has the address 10.0.0.1, but x:e0 at f:2:1 has it (give each its own)"},
      {{Table("x.a,e0,y,p0,,,\nx.b,e1,y,p1,,,\n")},
       "f:3:1: \"x.b\" differs from \"x.a\" at f:2:1 in its domain only"},
      {{kinds},
       "k:7:1: x is a host, but a switch at k:1:1 (correct one)\n"
       "k:7:1: x is CORE, but LEAF at k:1:1 (correct one)"},
      {{loopback}, "l:1:1: y has the address 10.9.9.9, but x at l:1:1 has it"},
      {{aliases},
       "a:2:3: x:e1 and x:e0 have the alias \"one\" (give each its own)\n"
       "a:3:4: x:e0 has 0.000000002 Gbit/s, but 0.000000001 at a:1:1 (correct one)"},
  };
  for (const auto& [sources, expected] : cases) {
    const std::string answer = Join(sources);
    EXPECT_TRUE(answer.starts_with(expected)) << answer << "\n  instead of " << expected;
  }
}

TEST(Joined, RefusesNamesThatNoTopologyMayHaveAndCountsMoreThanSixteen) {
  Cabling foreign = Empty("f");
  for (int i = 0; i < 20; ++i) {
    DeviceFact& fact = foreign.devices.emplace_back();
    fact.name = fmt::format("x\n{}", i);
  }
  const auto message = [&] {
    const auto joined = JoinSources({&foreign, 1});
    return joined ? "" : joined.error().message;
  };
  EXPECT_TRUE(message().starts_with(
      "f:1:1: the name of device \"x?0\" has a control character (remove it)\n"))
      << message();
  EXPECT_TRUE(message().ends_with("\nand 4 more"));
  foreign.devices.resize(1);
  foreign.devices[0].name = std::string(201, 'x');
  EXPECT_NE(message().find("longer than 200 bytes"), std::string::npos);
  foreign.devices[0].name = "x\xff";
  EXPECT_NE(message().find("not valid UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace espalier::imports
