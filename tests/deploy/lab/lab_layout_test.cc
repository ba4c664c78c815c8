#include "deploy/lab/lab_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "deploy/lab/frr_files.h"
#include "deploy/lab/lab_scripts.h"

namespace espalier::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

LabLayout MakePlan(LabOptions options) {
  Result<LabLayout> plan = LabLayout::Make(std::move(options));
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

LabLink FindLink(const LabLayout& plan, const std::string& lower, const std::string& upper) {
  for (const LabLink& link : plan.links()) {
    if (plan.NodeAt(link.lower.node).name == lower && plan.NodeAt(link.upper.node).name == upper)
      return link;
  }
  ADD_FAILURE() << "no link " << lower << "--" << upper;
  return {};
}

// Two pods of two leaves and two aggregation switches, below two planes of two cores.
LabOptions PodShape() {
  return {.spines = 2, .leaves = 2, .hosts_per_leaf = 2, .pods = 2, .cores = 4};
}

bool HasSysctl(const LabLayout& plan, const std::string& node, const std::string& key,
               const std::string& value) {
  const std::vector<Sysctl> sysctls = SysctlsOf(plan, *plan.FindNode(node));
  return std::any_of(sysctls.begin(), sysctls.end(), [&](const Sysctl& sysctl) {
    return sysctl.key == key && sysctl.value == value;
  });
}

TEST(LabLayout, RefusesShapesAndNamesThatCannotBe) {
  for (const LabOptions& options : {LabOptions{.spines = 0},
                                    LabOptions{.leaves = 129},
                                    LabOptions{.hosts_per_leaf = -1},
                                    LabOptions{.spines = 128, .leaves = 128, .hosts_per_leaf = 128},
                                    LabOptions{.name = ""},
                                    LabOptions{.name = "../x"},
                                    LabOptions{.name = "a b"},
                                    LabOptions{.name = "-x"},
                                    LabOptions{.link_rate = BitsPerSecond{1}},
                                    LabOptions{.cores = 4},
                                    LabOptions{.pods = 2},
                                    LabOptions{.spines = 4, .pods = 2, .cores = 6},
                                    LabOptions{.pods = 2, .cores = -4},
                                    LabOptions{.pods = 129, .cores = 4},
                                    LabOptions{.leaves = 100, .pods = 2, .cores = 4},
                                    LabOptions{.rails = 0},
                                    LabOptions{.rails = 3},
                                    LabOptions{.leaves = 32, .rails = 32},
                                    LabOptions{.rails = 2, .ipv6 = true},
                                    LabOptions{.gpus = 2},
                                    LabOptions{.rails = 2, .gpus = -1},
                                    LabOptions{.leaves = 6, .rails = 6, .gpus = 4},
                                    LabOptions{.planes = 2},
                                    LabOptions{.uplinks = 0},
                                    LabOptions{.uplinks = 3},
                                    LabOptions{.uplinks = 17},
                                    LabOptions{.rails = 2, .uplinks = 2},
                                    LabOptions{.uplinks = 2, .pods = 2, .cores = 4},
                                    LabOptions{.uplinks = 2, .routing = Routing::kFrr},
                                    LabOptions{.uplinks = 2, .ipv6 = true},
                                    LabOptions{.routing = Routing::kFrr, .ipv6 = true},
                                    LabOptions{.spines = 3, .rails = 2, .planes = 2},
                                    LabOptions{.rails = 2, .planes = 2, .pods = 2, .cores = 4}}) {
    const Result<LabLayout> plan = LabLayout::Make(options);
    ASSERT_FALSE(plan.has_value()) << options.name;
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(plan.error().message.empty());
  }
}

TEST(LabLayout, GivesAddressesByLeafAndPlace) {
  const LabLayout plan = MakePlan({.spines = 3, .leaves = 4, .hosts_per_leaf = 5});
  EXPECT_EQ(plan.NicAddress(13), "10.2.3.1");
  EXPECT_EQ(plan.LeafAddressOfNic(13), "10.2.3.0");
  const LabLink uplink = FindLink(plan, "leaf3", "spine2");
  EXPECT_EQ(uplink.lower.address, "172.16.3.4");
  EXPECT_EQ(uplink.upper.address, "172.16.3.5");
  EXPECT_EQ(plan.ManagementAddress(0), "10.255.1.1");
  EXPECT_EQ(plan.ManagementAddress(250), "10.255.2.1");
}

TEST(LabLayout, WritesNumbersOfIpv6AddressesInHexadecimal) {
  const LabLayout plan = MakePlan({.spines = 12, .leaves = 17, .hosts_per_leaf = 11, .ipv6 = true});
  EXPECT_EQ(plan.NicAddress(16 * 11 + 10), "fd00:10:10:a::1");
  EXPECT_EQ(FindLink(plan, "leaf16", "spine11").upper.address, "fd00:172:10:b::1");
}

TEST(LabLayout, DescribesEveryLinkEndInTheTopology) {
  for (const bool ipv6 : {false, true}) {
    const LabLayout plan = MakePlan({.name = "t",
                                     .spines = 3,
                                     .leaves = 2,
                                     .hosts_per_leaf = 2,
                                     .link_rate = BitsPerSecond{50'000'000},
                                     .ipv6 = ipv6});
    const Result<fabric::TopologySpec> spec = plan.MakeTopology();
    ASSERT_TRUE(spec.has_value()) << spec.error().message;
    EXPECT_EQ(spec->name, "t");
    ASSERT_EQ(spec->nodes.size(), 3U + 2U + 4U);
    ASSERT_EQ(spec->links.size(), 4U + 6U);
    std::set<IpAddress> addresses;
    for (const fabric::Link& link : spec->links) {
      EXPECT_EQ(link.a_address.IsV4(), !ipv6);
      EXPECT_TRUE(addresses.insert(link.a_address).second);
      EXPECT_TRUE(addresses.insert(link.b_address).second);
      EXPECT_FALSE(link.a_port.empty());
      EXPECT_FALSE(link.b_port.empty());
    }
    const auto topology = fabric::Topology::Build(*spec);
    ASSERT_TRUE(topology.has_value()) << topology.error().error.message;
    const fabric::Link& uplink = topology->link(*topology->FindLink("leaf1--spine2"));
    EXPECT_EQ(uplink.rate, BitsPerSecond{50'000'000});
    EXPECT_EQ(uplink.a_port, "s2");
    EXPECT_EQ(uplink.b_port, "l1");
    EXPECT_EQ(uplink.b_address.ToString(), FindLink(plan, "leaf1", "spine2").upper.address);
    const Result<IpAddress> host = IpAddress::Parse(plan.NicAddress(3));
    ASSERT_TRUE(host.has_value());
    EXPECT_EQ(topology->node(*topology->FindNic(*host)).id, "h3");
  }
}

TEST(LabLayout, GivesAGpuSeveralNics) {
  const LabLayout plan =
      MakePlan({.name = "t", .spines = 2, .leaves = 4, .hosts_per_leaf = 2, .rails = 4, .gpus = 2});
  EXPECT_EQ(plan.HostCount(), 2);
  EXPECT_EQ(plan.options().RankCount(), 4);
  EXPECT_EQ(plan.RankName(3), "h1/gpu1");
  EXPECT_EQ(plan.RankAddress(3), "10.2.1.1") << "of h1/nic2";
  const auto topology = fabric::Topology::Build(*plan.MakeTopology());
  ASSERT_TRUE(topology.has_value());
  for (const char* const link : {"h1/gpu0--h1/nic0", "h1/gpu0--h1/nic1", "h1/gpu1--h1/nic2",
                                 "h1/gpu1--h1/nic3", "h1/nic3--leaf3"}) {
    EXPECT_TRUE(topology->FindLink(link).has_value()) << link;
  }
  EXPECT_FALSE(topology->FindNode("h1/gpu2").has_value());
}

TEST(LabLayout, GivesHostsANicOnEachOfTheirRails) {
  const LabLayout plan =
      MakePlan({.name = "t", .spines = 2, .leaves = 4, .hosts_per_leaf = 3, .rails = 2});
  EXPECT_EQ(plan.HostCount(), 6);
  EXPECT_EQ(plan.NicName(11), "h5/nic1");
  EXPECT_EQ(plan.NicAddress(11), "10.3.2.1");
  EXPECT_EQ(plan.FindNode("h5/nic1"), plan.FindNode("h5"));
  EXPECT_EQ(plan.FindNode("h5/nic2"), nullptr);
  EXPECT_EQ(plan.RankName(11), "h5/gpu1");
  EXPECT_EQ(plan.RankAddress(11), "10.3.2.1");
  EXPECT_EQ(plan.FindNode("h5/gpu1"), plan.FindNode("h5"));
  EXPECT_EQ(plan.FindNode("h6"), nullptr);
  const LabLink link = FindLink(plan, "h5", "leaf3");
  EXPECT_EQ(link.lower.interface, "eth1");
  EXPECT_EQ(link.upper.interface, "h2");
  // Each NIC has a routing table of its own; what names no address takes the first that is up.
  const LabNode& host = *plan.FindNode("h5");
  const std::string script = NodeScript(plan, host);
  EXPECT_THAT(script, HasSubstr("rule add from 10.3.2.1 lookup 101\n"));
  EXPECT_THAT(script, HasSubstr("route replace default via 10.3.2.0 dev eth1 table 101\n"));
  EXPECT_THAT(script, HasSubstr("route replace default via 10.2.2.0 dev eth0 metric 1\n"));
  EXPECT_THAT(script, HasSubstr("route replace 10.1.0.0/16 via 10.3.2.0 dev eth1 src 10.3.2.1\n"));
  EXPECT_THAT(HostRouteScript(plan, host, {"eth0"}), Not(HasSubstr("eth0")));
  EXPECT_THAT(HostRouteScript(plan, host, {"eth0"}),
              HasSubstr("route replace unreachable default metric 9999 table 100\n"));
  const auto spec = plan.MakeTopology();
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  const auto topology = fabric::Topology::Build(*spec);
  ASSERT_TRUE(topology.has_value()) << topology.error().error.message;
  const fabric::Link& access = topology->link(*topology->FindLink("h5/nic1--leaf3"));
  EXPECT_EQ(access.a_port, "eth1");
  EXPECT_EQ(access.b_port, "h2");
  EXPECT_EQ(topology->node(*topology->FindNic(*IpAddress::Parse("10.3.2.1"))).id, "h5/nic1");
}

// The numbers (AS) keep routes from descending and ascending again: RFC 7938, section 5.2.
TEST(FrrFiles, GiveEveryTierItsNumbers) {
  LabOptions options = PodShape();
  options.routing = Routing::kFrr;
  const LabLayout plan = MakePlan(options);
  const auto bgp = [&](const char* name) { return MakeFrrFiles(plan, *plan.FindNode(name)).bgpd; };
  EXPECT_THAT(bgp("core1"), HasSubstr("router bgp 64512\n"));
  EXPECT_THAT(bgp("core1"), HasSubstr("neighbor 172.17.2.2 remote-as 64601\n"));
  EXPECT_THAT(bgp("agg3"), HasSubstr("router bgp 64601\n"));
  EXPECT_THAT(bgp("agg3"), HasSubstr("neighbor 172.16.2.2 remote-as 64802\n"));
  EXPECT_THAT(bgp("agg3"), HasSubstr("neighbor 172.17.3.1 remote-as 64512\n"));
  EXPECT_THAT(bgp("agg3"), Not(HasSubstr("  network 10.")));
  EXPECT_THAT(bgp("leaf3"), HasSubstr("router bgp 64803\n"));
  EXPECT_THAT(bgp("leaf3"), HasSubstr("  network 10.3.0.0/16\n"));
  EXPECT_THAT(bgp("leaf3"), Not(HasSubstr("neighbor 10.")));
  EXPECT_EQ(RouteScript(MakePlan(options), *plan.FindNode("leaf3"), {}), "");
  EXPECT_EQ(plan.NextHops(*plan.FindNode("leaf0"), 3).size(), 2U);
  EXPECT_EQ(plan.NextHops(*plan.FindNode("core0"), 3).size(), 1U);
  EXPECT_TRUE(plan.NextHops(*plan.FindNode("leaf0"), 0).empty());
}

TEST(LabLayout, LinksAndRoutesWithinAPlaneOnly) {
  const LabLayout plan = MakePlan(
      {.name = "t", .spines = 4, .leaves = 8, .hosts_per_leaf = 1, .rails = 4, .planes = 2});
  const auto spec = plan.MakeTopology();
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  for (const fabric::Link& link : spec->links) {
    EXPECT_EQ(link.a_port.empty(), link.id.find("gpu") != std::string::npos) << link.id;
  }
  EXPECT_EQ(FindLink(plan, "leaf5", "spine1").lower.interface, "s1");
  EXPECT_EQ(FindLink(plan, "leaf6", "spine2").upper.interface, "l6");
  const std::string routes = RouteScript(plan, *plan.FindNode("leaf5"), {});
  EXPECT_THAT(routes, HasSubstr("route replace 10.1.0.0/16 nexthop via"));
  EXPECT_THAT(routes, HasSubstr("route replace 10.0.0.0/16 nexthop via"));
  EXPECT_THAT(routes, Not(HasSubstr("10.2.0.0/16")));
}

TEST(LabLayout, GivesAHostOneAddressAndARouteOverEveryUplink) {
  const LabLayout plan =
      MakePlan({.name = "t", .spines = 2, .leaves = 4, .hosts_per_leaf = 3, .uplinks = 2});
  EXPECT_EQ(plan.HostCount(), 6);
  EXPECT_EQ(FindLink(plan, "h4", "leaf3").lower.address, "10.3.1.3");
  EXPECT_EQ(FindLink(plan, "h4", "leaf3").upper.address, "10.3.1.2");
  const auto spec = plan.MakeTopology();
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  const fabric::Topology topology = *fabric::Topology::Build(*spec);
  const fabric::NodeId h4 = *topology.FindNode("h4");
  EXPECT_TRUE(topology.HasSeveralUplinks(h4));
  EXPECT_EQ(topology.node(h4).addresses.front().ToString(), "10.2.1.1");
  EXPECT_EQ(topology.node(h4).uplink, fabric::UplinkChoice::kHash);
  EXPECT_EQ(topology.link(*topology.FindLink("h4--leaf3")).a_port, "eth1");
  for (const fabric::Link& link : spec->links) EXPECT_FALSE(link.a_port.empty()) << link.id;
  const LabNode& host = *plan.FindNode("h4");
  EXPECT_EQ(HostRouteScript(plan, host, {}),
            "route replace 0.0.0.0/0 src 10.2.1.1 nexthop via 10.2.1.2 dev eth0 nexthop via "
            "10.3.1.2 dev eth1\n");
  EXPECT_EQ(HostRouteScript(plan, host, {"eth0"}),
            "route replace 0.0.0.0/0 src 10.2.1.1 via 10.3.1.2 dev eth1\n");
  EXPECT_EQ(HostRouteScript(plan, host, {"eth0", "eth1"}), "");
  EXPECT_THAT(NodeScript(plan, host), HasSubstr("addr add 10.2.1.1/32 dev lo\n"));
  EXPECT_TRUE(HasSysctl(plan, "h4", "net/ipv4/fib_multipath_hash_policy", "1"));
  EXPECT_TRUE(plan.HashSeed(host));
  EXPECT_TRUE(plan.HashSeed(*plan.FindNode("spine0"))) << "it chooses among the leaves of a group";
  // A leaf has routes to its own hosts and to other groups, a spine to groups.
  const std::string of_leaf = RouteScript(plan, *plan.FindNode("leaf3"), {"h0"});
  EXPECT_THAT(of_leaf, HasSubstr("route replace 10.0.0.0/16 nexthop via"));
  EXPECT_THAT(of_leaf, HasSubstr("route replace 10.2.1.1/32 via 10.3.1.3 dev h1\n"));
  EXPECT_THAT(of_leaf, Not(HasSubstr("10.2.0.1/32"))) << "its link is down";
  EXPECT_THAT(of_leaf, Not(HasSubstr("10.2.0.0/16")));
  EXPECT_THAT(NodeScript(plan, *plan.FindNode("leaf3")),
              HasSubstr("route replace blackhole 10.2.0.0/16\n"));
  EXPECT_THAT(RouteScript(plan, *plan.FindNode("spine1"), {}),
              HasSubstr("route replace 10.2.0.0/16 nexthop via 172.16.2.2 dev l2 nexthop via "
                        "172.16.3.2 dev l3\n"));
}

TEST(LabLayout, HasALeafOfEachGroupInEveryPlane) {
  const LabLayout plan = MakePlan(
      {.name = "t", .spines = 4, .leaves = 4, .hosts_per_leaf = 1, .uplinks = 2, .planes = 2});
  EXPECT_EQ(RouteScript(plan, *plan.FindNode("spine3"), {}),
            "route replace 10.0.0.0/16 via 172.16.1.6 dev l1\n"
            "route replace 10.2.0.0/16 via 172.16.3.6 dev l3\n");
  EXPECT_FALSE(plan.HashSeed(*plan.FindNode("spine3"))) << "it has no choice";
  EXPECT_THAT(RouteScript(plan, *plan.FindNode("leaf1"), {}),
              HasSubstr("route replace 10.2.0.0/16 nexthop via 172.16.1.5 dev s2 nexthop via "
                        "172.16.1.7 dev s3\n"));
}

TEST(LabLayout, DrawsDifferentSeedsThatAreNeverZero) {
  const LabLayout plan = MakePlan({.leaves = 128, .hosts_per_leaf = 1, .seed = 7});
  const LabLayout same = MakePlan({.leaves = 128, .hosts_per_leaf = 1, .seed = 7});
  const LabLayout other = MakePlan({.leaves = 128, .hosts_per_leaf = 1, .seed = 8});
  std::set<std::uint32_t> seeds;
  int equal = 0;
  for (int leaf = 0; leaf < 128; ++leaf) {
    const LabNode node{Role::kLeaf, leaf, ""};
    EXPECT_NE(plan.HashSeed(node).value(), 0U);
    EXPECT_TRUE(seeds.insert(*plan.HashSeed(node)).second);
    EXPECT_EQ(plan.HashSeed(node), same.HashSeed(node));
    equal += plan.HashSeed(node) == other.HashSeed(node) ? 1 : 0;
  }
  EXPECT_LT(equal, 2);
}

TEST(LabLayout, TellsTheHashOnlyWhenAsked) {
  for (const bool hint : {false, true}) {
    const LabLayout plan = MakePlan({.hash_hint = hint});
    const Result<fabric::TopologySpec> spec = plan.MakeTopology();
    ASSERT_TRUE(spec.has_value());
    for (const fabric::Node& node : spec->nodes) {
      const bool is_leaf = node.role == fabric::SwitchRole::kLeaf;
      EXPECT_EQ(node.ecmp.has_value(), hint && is_leaf) << node.id;
      if (!node.ecmp) continue;
      EXPECT_EQ(node.ecmp->seed, plan.HashSeed(*plan.FindNode(node.id)));
    }
  }
}

TEST(LabLayout, SetsTheKernelUpForEcmpByPorts) {
  const LabLayout plan = MakePlan({});
  EXPECT_TRUE(HasSysctl(plan, "leaf0", "net/ipv4/fib_multipath_hash_policy", "3"));
  EXPECT_TRUE(HasSysctl(plan, "leaf0", "net/ipv4/fib_multipath_hash_fields", "51"));
  EXPECT_TRUE(HasSysctl(plan, "spine3", "net/ipv4/icmp_errors_use_inbound_ifaddr", "1"));
  EXPECT_TRUE(HasSysctl(plan, "h0", "net/ipv4/ip_local_reserved_ports", "49152-65535"));
  EXPECT_TRUE(HasSysctl(plan, "h0", "net/ipv6/conf/all/disable_ipv6", "1"));
  EXPECT_TRUE(HasSysctl(plan, "spine0", "net/ipv4/icmp_ratemask", "0"));
  const LabLayout limited = MakePlan({.icmp_limits = true});
  EXPECT_FALSE(HasSysctl(limited, "spine0", "net/ipv4/icmp_ratemask", "0"));
}

TEST(LabLayout, LeavesOutTheRoutesOverDownLinks) {
  const LabLayout plan = MakePlan({.spines = 3, .leaves = 2});
  const std::string leaf = RouteScript(plan, *plan.FindNode("leaf0"), {"s1"});
  EXPECT_THAT(leaf, HasSubstr("10.1.0.0/16 nexthop via 172.16.0.1 dev s0 nexthop via 172.16.0.5"));
  EXPECT_THAT(leaf, Not(HasSubstr("dev s1")));
  EXPECT_EQ(RouteScript(plan, *plan.FindNode("leaf0"), {"s0", "s1", "s2"}), "");
  const std::string spine = RouteScript(plan, *plan.FindNode("spine2"), {"l0"});
  EXPECT_EQ(spine, "route replace 10.1.0.0/16 via 172.16.1.4 dev l1\n");
}

TEST(LabLayout, JoinsPodsByPlanesOfCores) {
  for (const bool ipv6 : {false, true}) {
    LabOptions options = PodShape();
    options.ipv6 = ipv6;
    options.hash_hint = true;
    const LabLayout plan = MakePlan(options);
    const Result<fabric::TopologySpec> spec = plan.MakeTopology();
    ASSERT_TRUE(spec.has_value()) << spec.error().message;
    ASSERT_EQ(spec->nodes.size(), 8U + 4U + 4U + 4U);
    ASSERT_EQ(spec->links.size(), plan.links().size());
    std::set<IpAddress> addresses;
    for (const fabric::Link& link : spec->links) {
      EXPECT_TRUE(addresses.insert(link.a_address).second) << link.id;
      EXPECT_TRUE(addresses.insert(link.b_address).second) << link.id;
      EXPECT_FALSE(link.a_port.empty()) << link.id;
    }
    for (const fabric::Node& node : spec->nodes) {
      const bool chooses = node.id.starts_with("leaf") || node.id.starts_with("agg");
      EXPECT_EQ(node.ecmp.has_value(), chooses) << node.id;
    }
    const LabLink uplink = FindLink(plan, "agg3", "core2");
    EXPECT_EQ(uplink.lower.interface, "c0");
    EXPECT_EQ(uplink.upper.interface, "p1");
    EXPECT_EQ(uplink.upper.address, ipv6 ? "fd00:173:3:0::1" : "172.17.3.1");
  }
}

TEST(LabLayout, RoutesUpThenDownThroughPods) {
  const LabLayout plan = MakePlan(PodShape());
  EXPECT_EQ(
      RouteScript(plan, *plan.FindNode("leaf0"), {}),
      "route replace 10.1.0.0/16 nexthop via 172.16.0.1 dev s0 nexthop via 172.16.0.3 dev s1\n"
      "route replace 10.2.0.0/16 nexthop via 172.16.0.1 dev s0 nexthop via 172.16.0.3 dev s1\n"
      "route replace 10.3.0.0/16 nexthop via 172.16.0.1 dev s0 nexthop via 172.16.0.3 dev s1\n");
  EXPECT_EQ(
      RouteScript(plan, *plan.FindNode("agg1"), {"l0"}),
      "route replace 10.1.0.0/16 via 172.16.1.2 dev l1\n"
      "route replace 10.2.0.0/16 nexthop via 172.17.1.1 dev c0 nexthop via 172.17.1.3 dev c1\n"
      "route replace 10.3.0.0/16 nexthop via 172.17.1.1 dev c0 nexthop via 172.17.1.3 dev c1\n");
  EXPECT_EQ(RouteScript(plan, *plan.FindNode("core3"), {"p0"}),
            "route replace 10.2.0.0/16 via 172.17.3.2 dev p1\n"
            "route replace 10.3.0.0/16 via 172.17.3.2 dev p1\n");
}

TEST(LabLayout, SharesSeedsAsAsked) {
  LabOptions options = PodShape();
  const auto distinct_seeds = [&](HashSeeds seeds) {
    options.hash_seeds = seeds;
    const LabLayout plan = MakePlan(options);
    std::set<std::uint32_t> drawn;
    for (const LabNode& node : plan.nodes()) {
      if (const auto seed = plan.HashSeed(node)) drawn.insert(*seed);
    }
    EXPECT_FALSE(plan.HashSeed(*plan.FindNode("core0")).has_value());
    return drawn.size();
  };
  EXPECT_EQ(distinct_seeds(HashSeeds::kDistinct), 8U);
  EXPECT_EQ(distinct_seeds(HashSeeds::kTier), 2U);
  EXPECT_EQ(distinct_seeds(HashSeeds::kEqual), 1U);
}

TEST(LabLayout, LimitsOnlyLinksBetweenSwitches) {
  const LabLayout plan =
      MakePlan({.spines = 2, .leaves = 3, .link_rate = BitsPerSecond{20'000'000}});
  EXPECT_EQ(ShaperScript(plan, *plan.FindNode("h0")), "");
  const std::string leaf = ShaperScript(plan, *plan.FindNode("leaf2"));
  EXPECT_THAT(leaf, HasSubstr("dev s1 root tbf rate 20000000bit"));
  EXPECT_THAT(leaf, Not(HasSubstr("dev h")));
  EXPECT_THAT(ShaperScript(plan, *plan.FindNode("spine0")), HasSubstr("dev l2 root tbf"));
  EXPECT_EQ(ShaperScript(MakePlan({}), *plan.FindNode("leaf0")), "");
}

}  // namespace
}  // namespace espalier::lab
