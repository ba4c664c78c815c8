#include "deploy/lab/lab_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace espalier::lab {
namespace {

using testing::HasSubstr;
using testing::Not;

LabLayout MakePlan(LabOptions options) {
  Result<LabLayout> plan = LabLayout::Make(std::move(options));
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

bool HasSysctl(const LabLayout& plan, const std::string& node, const std::string& key,
               const std::string& value) {
  const std::vector<Sysctl> sysctls = plan.Sysctls(*plan.FindNode(node));
  return std::any_of(sysctls.begin(), sysctls.end(), [&](const Sysctl& sysctl) {
    return sysctl.key == key && sysctl.value == value;
  });
}

TEST(LabLayout, RefusesShapesAndNamesThatCannotBe) {
  for (const LabOptions& options :
       {LabOptions{.spines = 0}, LabOptions{.leaves = 129}, LabOptions{.hosts_per_leaf = -1},
        LabOptions{.spines = 128, .leaves = 128, .hosts_per_leaf = 128}, LabOptions{.name = ""},
        LabOptions{.name = "../x"}, LabOptions{.name = "a b"}, LabOptions{.name = "-x"},
        LabOptions{.link_rate = BitsPerSecond{1}}}) {
    const Result<LabLayout> plan = LabLayout::Make(options);
    ASSERT_FALSE(plan.has_value()) << options.name;
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(plan.error().message.empty());
  }
}

TEST(LabLayout, GivesAddressesByLeafAndPlace) {
  const LabLayout plan = MakePlan({.spines = 3, .leaves = 4, .hosts_per_leaf = 5});
  EXPECT_EQ(plan.HostAddress(13), "10.2.3.1");
  EXPECT_EQ(plan.LeafAddressOfHost(13), "10.2.3.0");
  EXPECT_EQ(plan.LeafUplinkAddress(3, 2), "172.16.3.4");
  EXPECT_EQ(plan.SpineUplinkAddress(3, 2), "172.16.3.5");
  EXPECT_EQ(plan.ManagementAddress(0), "10.255.1.1");
  EXPECT_EQ(plan.ManagementAddress(250), "10.255.2.1");
}

TEST(LabLayout, WritesNumbersOfIpv6AddressesInHexadecimal) {
  const LabLayout plan = MakePlan({.spines = 12, .leaves = 17, .hosts_per_leaf = 11, .ipv6 = true});
  EXPECT_EQ(plan.HostAddress(16 * 11 + 10), "fd00:10:10:a::1");
  EXPECT_EQ(plan.SpineUplinkAddress(16, 11), "fd00:172:10:b::1");
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
    EXPECT_EQ(uplink.b_address.ToString(), plan.SpineUplinkAddress(1, 2));
    const Result<IpAddress> host = IpAddress::Parse(plan.HostAddress(3));
    ASSERT_TRUE(host.has_value());
    EXPECT_EQ(topology->node(*topology->FindNic(*host)).id, "h3");
  }
}

TEST(LabLayout, DrawsDifferentSeedsThatAreNeverZero) {
  const LabLayout plan = MakePlan({.leaves = 128, .hosts_per_leaf = 1, .seed = 7});
  const LabLayout same = MakePlan({.leaves = 128, .hosts_per_leaf = 1, .seed = 7});
  const LabLayout other = MakePlan({.leaves = 128, .hosts_per_leaf = 1, .seed = 8});
  std::set<std::uint32_t> seeds;
  int equal = 0;
  for (int leaf = 0; leaf < 128; ++leaf) {
    EXPECT_NE(plan.HashSeed(leaf), 0U);
    EXPECT_TRUE(seeds.insert(plan.HashSeed(leaf)).second);
    EXPECT_EQ(plan.HashSeed(leaf), same.HashSeed(leaf));
    equal += plan.HashSeed(leaf) == other.HashSeed(leaf) ? 1 : 0;
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
      EXPECT_EQ(node.ecmp->seed, plan.HashSeed(plan.FindNode(node.id)->index));
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
  const std::string leaf = plan.RouteScript(*plan.FindNode("leaf0"), {"s1"});
  EXPECT_THAT(leaf, HasSubstr("10.1.0.0/16 nexthop via 172.16.0.1 dev s0 nexthop via 172.16.0.5"));
  EXPECT_THAT(leaf, Not(HasSubstr("dev s1")));
  EXPECT_EQ(plan.RouteScript(*plan.FindNode("leaf0"), {"s0", "s1", "s2"}), "");
  const std::string spine = plan.RouteScript(*plan.FindNode("spine2"), {"l0"});
  EXPECT_EQ(spine, "route replace 10.1.0.0/16 via 172.16.1.4 dev l1\n");
}

TEST(LabLayout, LimitsOnlyLinksBetweenSwitches) {
  const LabLayout plan =
      MakePlan({.spines = 2, .leaves = 3, .link_rate = BitsPerSecond{20'000'000}});
  EXPECT_EQ(plan.ShaperScript(*plan.FindNode("h0")), "");
  const std::string leaf = plan.ShaperScript(*plan.FindNode("leaf2"));
  EXPECT_THAT(leaf, HasSubstr("dev s1 root tbf rate 20000000bit"));
  EXPECT_THAT(leaf, Not(HasSubstr("dev h")));
  EXPECT_THAT(plan.ShaperScript(*plan.FindNode("spine0")), HasSubstr("dev l2 root tbf"));
  EXPECT_EQ(MakePlan({}).ShaperScript(*plan.FindNode("leaf0")), "");
}

}  // namespace
}  // namespace espalier::lab
