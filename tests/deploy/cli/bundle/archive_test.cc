#include "deploy/cli/bundle/archive.h"

#include <gtest/gtest.h>

namespace espalier::cli {
namespace {

TEST(Archive, IsTheSameForTheSameInput) {
  const std::vector<ArchiveFile> files = {{"a.txt", "a"}, {"b.txt", std::string(2'000, 'b')}};
  const auto one = MakeArchive("x", files, WallTime{});
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(*one, *MakeArchive("x", files, WallTime{}));
  EXPECT_LT(one->size(), 500U);
}

TEST(WithoutSecrets, RemovesWhatMayBeOne) {
  EXPECT_EQ(WithoutSecrets("Bearer esp_0123abc."), "Bearer esp_REMOVED.");
  EXPECT_EQ(WithoutSecrets(R"({"token": "abc", "name": "x"})"),
            R"({"token": "REMOVED", "name": "x"})");
  EXPECT_EQ(WithoutSecrets("api_secret: 'a\\'b' # c"), "api_secret: 'REMOVED' # c");
  EXPECT_EQ(WithoutSecrets("Password:\t\"x"), "Password:\t\"REMOVED");
  EXPECT_EQ(WithoutSecrets("http://user:pw@host/p"), "http://REMOVED@host/p");
}

TEST(WithoutSecrets, LeavesTheRest) {
  for (const char* text : {"token_file: \"/etc/token\"", "key_folder: \"/etc/keys\"",
                           "listen: \"tcp://127.0.0.1:7400\"", "tokens: 3", "wesp_x", "", "://"}) {
    EXPECT_EQ(WithoutSecrets(text), text);
  }
}

}  // namespace
}  // namespace espalier::cli
