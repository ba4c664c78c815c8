#include "common/base/address/ip_address.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

TEST(IpAddress, ParsesAndPrintsBothFamilies) {
  for (const char* text : {"10.0.0.1", "255.255.255.255", "::1", "fd00:1::2", "::"}) {
    const auto address = IpAddress::Parse(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(address->ToString(), text);
  }
  EXPECT_EQ(IpAddress::Parse("10.1.2.3")->V4(), 0x0a010203U);
  EXPECT_TRUE(IpAddress::Parse("::ffff:10.1.2.3")->IsV4());
  EXPECT_EQ(*IpAddress::Parse("::ffff:10.1.2.3"), IpAddress::FromV4(0x0a010203));
}

TEST(IpAddress, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "10.0.0", "10.0.0.256", "host", "fd00::1::2", "10.0.0.1/24",
                           "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb"}) {
    EXPECT_FALSE(IpAddress::Parse(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace espalier
