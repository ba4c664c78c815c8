#include "common/files/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/temporary_folder.h"

namespace espalier::io {
namespace {

// A temporary folder of the test.
class FileTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

TEST_F(FileTest, ReadsBackWhatWasWritten) {
  const std::string big(300'000, 'x');
  for (const std::string& text : {std::string(), std::string("one\0two\n", 8), big}) {
    ASSERT_TRUE(WriteFileDurably(Path("f"), text).has_value());
    EXPECT_EQ(ReadFile(Path("f")), text);
  }
}

TEST_F(FileTest, LeavesNothingBesideTheFile) {
  ASSERT_TRUE(WriteFileDurably(Path("f"), "1").has_value());
  ASSERT_TRUE(WriteFileDurably(Path("f"), "2").has_value());
  const auto entries = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(FileTest, KeepsTheOldFileWhenTheNewOneCannotBeWritten) {
  ASSERT_TRUE(std::filesystem::create_directory(Path("f")));  // a folder cannot be replaced
  EXPECT_FALSE(WriteFileDurably(Path("f"), "2").has_value());
  EXPECT_TRUE(std::filesystem::is_directory(Path("f")));
  const auto entries = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(FileTest, WritesThroughALinkAndNeverReplacesADevice) {
  ASSERT_TRUE(WriteFileDurably(Path("f"), "1").has_value());
  std::filesystem::create_symlink(Path("f"), Path("link"));
  ASSERT_TRUE(WriteFileDurably(Path("link"), "2").has_value());
  EXPECT_EQ(ReadFile(Path("f")), "2");
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(WriteFileDurably("/dev/null", "3").error().code, ErrorCode::kInvalidArgument);
}

TEST_F(FileTest, SaysWhyAFileCannotBeRead) {
  const auto missing = ReadFile(Path("none"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(missing.error().message.starts_with(Path("none")));
  EXPECT_EQ(ReadFile(folder_.string()).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(WriteFileDurably(Path("no/such/folder"), "").error().code, ErrorCode::kNotFound);
}

TEST_F(FileTest, RefusesFilesBeyondTheLimit) {
  ASSERT_TRUE(WriteFileDurably(Path("f"), "").has_value());
  std::filesystem::resize_file(Path("f"), (std::uintmax_t{256} << 20) + 1);  // sparse
  EXPECT_EQ(ReadFile(Path("f")).error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace espalier::io
