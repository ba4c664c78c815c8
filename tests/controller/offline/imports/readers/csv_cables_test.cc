#include "controller/offline/imports/readers/csv_cables.h"

#include "tests/controller/offline/imports/broken_files.h"

namespace espalier::imports {
namespace {

TEST(CsvCables, ReadsCablesWithRatesAddressesAndKinds) {
  const auto cabling = ReadCsvCables(
      "gbps,b_port,a_device,a_port,b_device,b_address,a_kind\n"
      "12.5,\"p,1\",x,e0,y,10.0.0.1/31,switch\n,p2,x,e1,z,,\n",
      "f");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  EXPECT_EQ(Describe(*cabling), "x:e0-y:p,1 12.5\nx:e1-z:p2\n");
  EXPECT_EQ(cabling->cables[0].b.address.ToString(), "10.0.0.1");
  EXPECT_TRUE(cabling->cables[0].a.address.IsNone());
  EXPECT_EQ(cabling->cables[1].at.line, 3);
  ASSERT_EQ(cabling->devices.size(), 1U);
  EXPECT_EQ(cabling->devices[0].name, "x");
  EXPECT_EQ(cabling->devices[0].kind, DeviceKind::kSwitch);
  const auto example = ReadCsvCables(Example("cables.csv"), "f");
  ASSERT_TRUE(example.has_value()) << example.error().message;
  EXPECT_EQ(example->cables.size(), 6U);
}

TEST(CsvCables, NamesThePlaceOfEveryError) {
  const std::string head = "a_device,a_port,b_device,b_port,gbps,a_address,b_kind\n";
  ExpectErrors(ReadCsvCables,
               {{"", "1:1: the file is empty (name the columns"},
                {"a_device,a_port,b_device\n", "1:1: the column \"b_port\" is missing"},
                {"a_device,a_port,b_device,b_port,length\n", "1:33: unknown column \"length\" ("},
                {"a_device,a_port,b_device,b_port,a_port\n", "1:33: a second column \"a_port\""},
                {head + "x,e0,y,p1,100,10.0.0.1\n", "2:15: the line has 6 fields, the first"},
                {head + "x,e0,y,,100,10.0.0.1,host\n", "2:8: b_port is empty (name it)"},
                {head + "x,e0,y,p1,1e2,,\n", "2:11: bandwidth \"1e2\""},
                {head + "x,e0,y,p1,-5,,\n", "2:11: bandwidth \"-5\""},
                {head + "x,e0,y,p1,,10.0.0,\n", "2:12: \"10.0.0\" is not an address"},
                {head + "x,e0,y,p1,,,leaf\n", "2:13: kind \"leaf\" is unknown (write"},
                {head + "x,\"e0,y,p1,,,\n", "2:3: "},
                {head + "x\x01,e0,y,p1,,,\n", "2:1: "}});
}

}  // namespace
}  // namespace espalier::imports
