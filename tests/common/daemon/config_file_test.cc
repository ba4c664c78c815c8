#include "common/daemon/config_file.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/common/daemon/example.pb.h"

namespace espalier::io {
namespace {

using google::protobuf::FieldDescriptorProto;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ConfigFile, ReadsTextFormatWithComments) {
  FieldDescriptorProto config;  // an example of a message
  const auto read = ParseConfig("# a comment\nname: \"x\"  # another\nnumber: 7\n", "f", config);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(config.name(), "x");
  EXPECT_EQ(config.number(), 7);
}

TEST(ConfigFile, NamesTheLineAndColumnOfTheFirstError) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"name: \"x\"\nnumbr: 7\n", "f:2:6: "},
      {"\n\n  number: \"seven\"\n", "f:3:11: "},
      {"name: \"x\n", "f:1:9: "},
      {"number: 99999999999\n", "f:1:9: "},
      {"options {\n  packd: true\n}\n", "f:2:8: "},
      {"options {\n", "f:2:1: "},
      {"number: 1\nnumber: 2\n", "f:2:7: "},
      {std::string("name: \"\0\"", 9), "f:1:"},
      {"\xff\xfe", "f:1:1: "}};
  for (const auto& [text, position] : cases) {
    FieldDescriptorProto config;
    const auto read = ParseConfig(text, "f", config);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().message, StartsWith(position)) << text;
  }
}

TEST(ConfigFile, SaysWhyAFileCannotBeRead) {
  FieldDescriptorProto config;
  const auto missing = ReadConfigFile("/nonexistent/config", config);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent/config"));

  EXPECT_FALSE(ReadConfigFile(testing::TempDir(), config));  // a folder

  const std::string path = testing::TempDir() + "/espalier_config_" + std::to_string(getpid());
  std::ofstream(path) << std::string((1 << 20) + 1, '#');
  const auto large = ReadConfigFile(path, config);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);

  std::ofstream(path) << "number: 3";
  ASSERT_TRUE(ReadConfigFile(path, config));
  EXPECT_EQ(config.number(), 3);
  unlink(path.c_str());
}

TEST(ConfigFile, NamesTheFieldThatIsWrong) {
  const Result<void> failed = FailField("f", "probe_ttl", "not 1 to 255");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(failed.error().message, "f: probe_ttl: not 1 to 255");
}

// What is wrong with a file of the schema example.proto; empty: nothing.
std::string FaultOf(const std::string& text, example::ExampleConfig* config) {
  config->Clear();
  const auto read = ParseConfig(text, "f", *config);
  return read ? "" : read.error().message;
}

TEST(Options, HaveTheDefaultsOfTheirRows) {
  example::ExampleConfig config;
  ASSERT_EQ(FaultOf("needed: \"x\"", &config), "");
  EXPECT_EQ(config.colour(), "red");
  EXPECT_EQ(config.percent(), 50U);
  EXPECT_EQ(config.size(), 7U);
  EXPECT_TRUE(config.is_on());
  ASSERT_EQ(config.port_size(), 1);
  EXPECT_EQ(config.port(0), 4791U);
  EXPECT_EQ(config.user(), "");
  // A number of 0 stands for the default only where 0 cannot be told from nothing.
  ASSERT_EQ(FaultOf("needed: \"x\" percent: 0 size: 0 is_on: false port: 1 port: 2", &config), "");
  EXPECT_EQ(config.percent(), 50U);
  EXPECT_EQ(config.size(), 0U);
  EXPECT_FALSE(config.is_on());
  EXPECT_EQ(config.port_size(), 2);
}

TEST(Options, AreRefusedWithTheirPlaceAndWhatIsAllowed) {
  example::ExampleConfig config;
  for (const auto& [text, fault] : std::vector<std::pair<std::string, std::string>>{
           {"colour: \"red\"", "f: needed is missing (write needed: \"IT\")"},
           {"needed: \"x\"\n colour: \"grey\"",
            "f:2:2: colour: unknown value \"grey\" (give \"red\", \"green\" or \"blue\")"},
           {"needed: \"x\"\n percent: 101", "f:2:2: percent: 101 is not in 1..100"},
           {"needed: \"x\" size: 10", "f:1:13: size: 10 is not in 0..9"},
           {"needed: \"x\"\nport: 1\nport: 65536", "f:3:1: port: 65536 is not in 1..65535"},
           {"needed: \"x\"\nport: 0", "f:2:1: port: 0 is not in 1..65535"}}) {
    EXPECT_EQ(FaultOf(text, &config), fault);
  }
}

TEST(Options, ArePrintedSoThatTheyCanBeReadAgain) {
  example::ExampleConfig config;
  ASSERT_EQ(FaultOf("needed: \"a\\\"b\" port: 1 port: 2", &config), "");
  const std::string printed = PrintOptions(OptionsInForce(config));
  EXPECT_EQ(printed,
            "needed: \"a\\\"b\"\ncolour: \"red\"\npercent: 50\nsize: 7\nis_on: true\n"
            "port: 1\nport: 2\nis_loud: false\n");
  example::ExampleConfig again;
  ASSERT_EQ(FaultOf(printed, &again), "");
  EXPECT_EQ(again.SerializeAsString(), config.SerializeAsString());
}

TEST(Options, ThatChangeNeedARestartUnlessTheirRowsSayReload) {
  example::ExampleConfig config;
  ASSERT_EQ(FaultOf("needed: \"x\"", &config), "");
  const auto running = OptionsInForce(config);
  ASSERT_EQ(FaultOf("needed: \"x\" percent: 3 user: \"me\" colour: \"red\"", &config), "");
  EXPECT_EQ(NeedRestart(running, OptionsInForce(config)), std::vector<std::string>());
  ASSERT_EQ(FaultOf("needed: \"y\" port: 4791 port: 1 is_loud: true", &config), "");
  EXPECT_EQ(NeedRestart(running, OptionsInForce(config)),
            (std::vector<std::string>{"needed", "port", "is_loud"}));
}

}  // namespace
}  // namespace espalier::io
