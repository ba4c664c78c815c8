#include "controller/offline/imports/formats.h"

#include <gtest/gtest.h>

#include <set>

#include "common/files/file.h"
#include "controller/offline/imports/facts/reading.h"
#include "tests/temporary_folder.h"

namespace espalier::imports {
namespace {

TEST(Formats, AreFoundByNameAndHaveASummary) {
  std::set<std::string_view> names;
  for (const Format& format : Formats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    EXPECT_EQ(FindFormat(format.name), &format);
    EXPECT_TRUE(format.summary.starts_with("Convert ")) << format.summary;
  }
  EXPECT_EQ(FindFormat("yaml"), nullptr);
}

TEST(Formats, RefuseFilesThatAreNoneOfTheirs) {
  for (const Format& format : Formats()) {
    for (const std::string_view text : {"", "\x01\xff", "{", "[[[[", "<a", "\"", "a,b\n1,2\n"}) {
      const auto cabling = format.read(text, "f");
      ASSERT_FALSE(cabling.has_value()) << format.name << " " << text;
      EXPECT_TRUE(cabling.error().message.starts_with("f:")) << cabling.error().message;
    }
  }
}

TEST(Formats, RefuseFilesThatAreMissingOrTooLarge) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/large.csv";
  EXPECT_EQ(ReadCabling(*FindFormat("csv"), path).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(io::WriteFileDurably(path, std::string(kMaxFileBytes + 1, ' ')).has_value());
  const auto large = ReadCabling(*FindFormat("csv"), path);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace espalier::imports
