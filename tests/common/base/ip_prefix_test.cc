#include "common/base/address/ip_prefix.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

IpAddress At(const char* text) { return IpAddress::Parse(text).value(); }

TEST(IpPrefix, HoldsTheAddressesThatBeginWithItsBits) {
  const IpPrefix ten = IpPrefix::Parse("10.128.0.0/9").value();
  EXPECT_TRUE(ten.Contains(At("10.128.0.0")));
  EXPECT_TRUE(ten.Contains(At("10.255.255.255")));
  EXPECT_FALSE(ten.Contains(At("10.127.255.255")));
  EXPECT_FALSE(ten.Contains(At("11.128.0.0")));
  const IpPrefix local = IpPrefix::Parse("fd00::/8").value();
  EXPECT_TRUE(local.Contains(At("fdff::1")));
  EXPECT_FALSE(local.Contains(At("fe00::1")));
  EXPECT_TRUE(IpPrefix::Parse("192.0.2.7/32").value().Contains(At("192.0.2.7")));
  EXPECT_FALSE(IpPrefix::Parse("192.0.2.7/32").value().Contains(At("192.0.2.6")));
}

TEST(IpPrefix, KeepsTheFamiliesApart) {
  const IpPrefix all_v4 = IpPrefix::Parse("0.0.0.0/0").value();
  const IpPrefix all_v6 = IpPrefix::Parse("::/0").value();
  EXPECT_TRUE(all_v4.Contains(At("203.0.113.9")));
  EXPECT_FALSE(all_v4.Contains(At("2001:db8::1")));
  EXPECT_TRUE(all_v6.Contains(At("2001:db8::1")));
  EXPECT_FALSE(all_v6.Contains(At("203.0.113.9")));
}

TEST(IpPrefix, RefusesWhatIsNone) {
  for (const char* text : {"", "10.0.0.0", "10.0.0.0/", "/8", "10.0.0.0/33", "10.0.0.0/-1",
                           "10.0.0.1/8", "fd00::/129", "fd00::1/8", "10.0.0.0/8x", "host/8"}) {
    const auto prefix = IpPrefix::Parse(text);
    ASSERT_FALSE(prefix) << text;
    EXPECT_EQ(prefix.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace espalier
