#include "common/base/users/local_user.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier {
namespace {

TEST(LocalUser, IsANameOrANumber) {
  for (const std::string text :
       {"alice", "_apt", "a", "web-2_b", "machine$", "0", "1000", "4294967295"}) {
    EXPECT_TRUE(IsLocalUser(text)) << text;
  }
  EXPECT_TRUE(IsLocalUser(std::string(32, 'a')));
  EXPECT_TRUE(IsLocalUser(std::string(32, 'a') + "$"));
}

TEST(LocalUser, IsNothingElse) {
  for (const std::string text :
       {"", "$", "Alice", "-a", "2b", "a b", "a\nb", "al$ice", "a$$", "ä", "a.b", "+1", "-1", " 1",
        "1 ", "0x1", "1.0", "4294967296", "99999999999999999999"}) {
    EXPECT_FALSE(IsLocalUser(text)) << text;
  }
  EXPECT_FALSE(IsLocalUser(std::string(33, 'a')));
  EXPECT_FALSE(IsLocalUser(std::string(33, '0')));
  EXPECT_FALSE(IsLocalUser(std::string("a\0", 2)));
  EXPECT_FALSE(IsLocalUser(std::string("1\0", 2)));
}

TEST(LocalUser, HasItsNumberWhereItIsOne) {
  EXPECT_EQ(LocalUserNumber("0"), uid_t{0});
  EXPECT_EQ(LocalUserNumber("61001"), uid_t{61'001});
  EXPECT_EQ(LocalUserNumber("4294967295"), uid_t{4'294'967'295});
  EXPECT_EQ(LocalUserNumber("alice"), std::nullopt);
  EXPECT_EQ(LocalUserNumber(""), std::nullopt);
}

}  // namespace
}  // namespace espalier
