#include "common/daemon/config_file.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

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

TEST(ConfigFile, HasADefaultForAnEmptyText) {
  EXPECT_EQ(Or("", "info"), "info");
  EXPECT_EQ(Or("debug", "info"), "debug");
}

}  // namespace
}  // namespace espalier::io
