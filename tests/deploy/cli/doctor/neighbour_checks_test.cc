#include "deploy/cli/doctor/neighbour_checks.h"

#include "tests/deploy/cli/doctor/recorded_host.h"

namespace espalier::doctor {
namespace {

// What `lldpcli -f json0 show neighbors details` prints of one neighbour.
std::string Neighbour(const std::string& interface, const std::string& name) {
  return R"({"name":")" + interface +
         R"(","chassis":[{"id":[{"type":"mac","value":"02:00:00:00:00:aa"}],
    "name":[{"value":")" +
         name + R"("}]}],
    "port":[{"id":[{"type":"ifname","value":"Ethernet4"}],
      "auto-negotiation":[{"current":[{"value":"100GbaseLR4 - ..."}]}]}]})";
}
std::string Lldp(const std::string& neighbours) {
  return R"({"lldp":[{"interface":[)" + neighbours + "]}]}";
}

TEST(NeighbourChecks, NameLeafPortAndRate) {
  RecordedHost host;
  EXPECT_EQ(Only(host.Run(CheckNeighbours), "lldpcli is not installed"), State::kSkipped);
  host.AddDevice();
  host.programs["lldpcli"] = Lldp(Neighbour("eth0", "leaf0"));
  EXPECT_EQ(Only(host.Run(CheckNeighbours),
                 "leaf0, port Ethernet4, 100 Gbit/s by what it "
                 "advertises"),
            State::kOk);
  host.Write("/sys/class/net/eth0/speed", "100000\n");
  EXPECT_EQ(Only(host.Run(CheckNeighbours), "leaf0, port Ethernet4, 100 Gbit/s"), State::kOk);
  host.Write("/sys/class/net/eth0/speed", "400000\n");
  EXPECT_EQ(Only(host.Run(CheckNeighbours), "400 Gbit/s, though it advertises 100"), State::kOk);
}

TEST(NeighbourChecks, SayThatNoneOrSeveralAreHeard) {
  RecordedHost host;
  host.programs["lldpcli"] = R"({"lldp":[{}]})";
  EXPECT_EQ(Only(host.Run(CheckNeighbours), "hears no neighbour"), State::kSkipped);
  host.AddDevice();
  EXPECT_EQ(Only(host.Run(CheckNeighbours), "is not heard"), State::kSkipped);
  host.programs["lldpcli"] = Lldp(Neighbour("eth0", "leaf0") + "," + Neighbour("eth0", "leaf1"));
  EXPECT_EQ(Only(host.Run(CheckNeighbours), "several behind a bridge"), State::kSkipped);
}

TEST(NeighbourChecks, KnowTheMembersOfABond) {
  RecordedHost host;
  host.AddDevice("mlx5_bond_0", "bond0");
  host.Write("/sys/class/net/bond0/bonding/slaves", "eth0 eth1\n");
  host.programs["lldpcli"] = Lldp(Neighbour("eth0", "leaf0") + "," + Neighbour("eth1", "leaf1"));
  const auto findings = host.Run(CheckNeighbours);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_NE(findings[1].found.find("leaf1"), std::string::npos);
}

TEST(NeighbourChecks, EndureHostileAnswers) {
  RecordedHost host;
  for (const std::string& hostile :
       {std::string("{"), std::string("[]"), std::string(R"({"lldp": 7})"),
        Lldp(R"({"name":"eth0"})"), std::string(5U << 20U, ' ')}) {
    host.programs["lldpcli"] = hostile;
    EXPECT_EQ(Only(host.Run(CheckNeighbours), ""), State::kSkipped) << hostile.substr(0, 80);
  }
}

TEST(CablingCheck, ComparesNeighboursWithTheTopology) {
  RecordedHost host;
  const auto check = [&](const std::string& text) {
    const auto topology = io::ParseJson(text, "topology");
    EXPECT_TRUE(topology.has_value()) << text;
    Findings findings;
    CheckCabling(host.view, topology.value_or(io::JsonValue{}), findings);
    return findings.all();
  };
  const auto cabled = [](const std::string& leaf) {
    return R"({"nodes": [{"id": "h0", "kind": "NIC", "addresses": ["10.0.0.1"]},
                         {"id": "leaf0", "kind": "SWITCH"}, {"id": "leaf1", "kind": "SWITCH"}],
               "links": [{"id": "l", "a": "h0", "b": ")" +
           leaf + "\"}]}";
  };
  EXPECT_EQ(Only(check(cabled("leaf0")), "no interface with RoCEv2"), State::kSkipped);
  host.AddDevice();
  EXPECT_EQ(Only(check(cabled("leaf0")), "lldpcli is not installed"), State::kSkipped);
  host.programs["lldpcli"] = Lldp(Neighbour("eth0", "Leaf0.example.com"));
  EXPECT_EQ(Only(check(cabled("leaf0")), "LLDP hears Leaf0.example.com"), State::kOk);
  EXPECT_EQ(Only(check(cabled("leaf1")), "the topology has leaf1"), State::kFailed);
  host.programs["lldpcli"] = Lldp(Neighbour("eth0", "sw17"));
  EXPECT_EQ(Only(check(cabled("leaf1")), "names switches otherwise"), State::kSkipped);
  for (const char* const other : {"[]", "{}", R"({"nodes": 7, "links": 7})",
                                  R"({"nodes": [7, {"addresses": ["x", 7]}], "links": [[]]})"}) {
    EXPECT_EQ(Only(check(other), "no NIC of the controller's topology"), State::kFailed) << other;
  }
}

}  // namespace
}  // namespace espalier::doctor
