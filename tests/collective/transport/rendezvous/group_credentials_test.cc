#include "collective/transport/rendezvous/group_credentials.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::transport {
namespace {

IpAddress At(const std::string& text) { return *IpAddress::Parse(text); }

TEST(GroupCredentials, MeetsWithoutAKeyAtLoopbackAddressesOnly) {
  const GroupCredentials members;
  for (const char* const address : {"127.0.0.1", "127.255.1.2", "::1"}) {
    EXPECT_TRUE(members.CheckMeetsAt(At(address))) << address;
  }
  for (const char* const address : {"10.0.0.1", "126.255.255.255", "128.0.0.1", "::2", "fe80::1"}) {
    const auto checked = members.CheckMeetsAt(At(address));
    ASSERT_FALSE(checked) << address;
    EXPECT_EQ(checked.error().code, ErrorCode::kPermissionDenied);
    EXPECT_NE(checked.error().message.find(address), std::string::npos);
    EXPECT_NE(checked.error().message.find("ESPALIER_JOB_KEY_FILE"), std::string::npos);
  }
}

TEST(GroupCredentials, MeetsAnywhereWithAKeyOrWhereTheNetworkIsTrusted) {
  EXPECT_TRUE(GroupCredentials{.key = JobKey::Draw()}.CheckMeetsAt(At("10.0.0.1")));
  EXPECT_TRUE(GroupCredentials{.trusts_network = true}.CheckMeetsAt(At("10.0.0.1")));
}

TEST(GroupCredentials, KnowsWhereEachRankMayBe) {
  const GroupCredentials members = {.addresses = {At("10.0.0.1"), At("10.0.0.2")}};
  EXPECT_TRUE(members.CheckIsAt(0, At("10.0.0.1")));
  EXPECT_TRUE(members.CheckIsAt(1, At("10.0.0.2")));
  EXPECT_TRUE(members.CheckIsAt(2, At("10.9.9.9")));  // no address is known for rank 2
  const auto elsewhere = members.CheckIsAt(1, At("10.0.0.1"));
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(elsewhere.error().message,
            "it published the address 10.0.0.1, but the job's plan says 10.0.0.2");
}

TEST(GroupCredentials, KnowsInWhichNetworksRanksMayBe) {
  const GroupCredentials members = {
      .addresses = {At("10.0.0.1")},
      .networks = {*IpPrefix::Parse("10.0.0.0/30"), *IpPrefix::Parse("fd00::/8")}};
  EXPECT_TRUE(members.CheckIsAt(0, At("10.0.0.1")));
  EXPECT_TRUE(members.CheckIsAt(1, At("fd00::7")));
  EXPECT_FALSE(members.CheckIsAt(1, At("10.0.0.4")));
  EXPECT_FALSE(members.CheckIsAt(0, At("10.0.0.2")));  // in the network, but not at its address
  const GroupCredentials anywhere;
  EXPECT_TRUE(anywhere.CheckIsAt(0, At("10.0.0.4")));
}

}  // namespace
}  // namespace espalier::transport
