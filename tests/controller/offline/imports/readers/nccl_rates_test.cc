#include "controller/offline/imports/readers/nccl_rates.h"

#include <gtest/gtest.h>

namespace espalier::imports {
namespace {

TEST(NcclRates, AreThoseOfItsTables) {
  EXPECT_EQ(FormatGbps(*PciRate("2.5 GT/s PCIe", 1)), "1.5");
  EXPECT_EQ(FormatGbps(*PciRate("8.0 GT/s PCIe", 16)), "96");
  EXPECT_EQ(FormatGbps(*PciRate("16 GT/s", 16)), "192");
  EXPECT_EQ(FormatGbps(*PciRate("64.0 GT/s PCIe", 16)), "768");
  EXPECT_FALSE(PciRate("", 16).has_value());
  EXPECT_FALSE(PciRate("Unknown", 16).has_value());
  EXPECT_FALSE(PciRate("7 GT/s", 16).has_value());
  EXPECT_EQ(FormatGbps(DefaultPciRate(16)), "96");
  EXPECT_EQ(FormatGbps(NvLinkRate(60, 4)), "576");
  EXPECT_EQ(FormatGbps(NvLinkRate(80, 12)), "1920");
  EXPECT_EQ(FormatGbps(NvLinkRate(86, 4)), "384");
  EXPECT_EQ(FormatGbps(NvLinkRate(90, 18)), "2966.4");
  EXPECT_EQ(FormatGbps(NvLinkRate(100, 18)), "5774.4");
  EXPECT_EQ(FormatGbps(InterCpuRate("x86_64", "GenuineIntel", 6, 0x8F)), "176");
  EXPECT_EQ(FormatGbps(InterCpuRate("x86_64", "GenuineIntel", 6, 0x55)), "80");
  EXPECT_EQ(FormatGbps(InterCpuRate("x86_64", "GenuineIntel", 6, 0x4F)), "48");
  EXPECT_EQ(FormatGbps(InterCpuRate("x86_64", "GenuineIntel", 6, 0xCF)), "320");
  EXPECT_EQ(FormatGbps(InterCpuRate("x86_64", "AuthenticAMD", 175, 1)), "128");
  EXPECT_EQ(FormatGbps(InterCpuRate("arm64", "", 0, 0)), "48");
  EXPECT_EQ(FormatGbps(InterCpuRate("ppc64", "", 0, 0)), "256");
}

}  // namespace
}  // namespace espalier::imports
