#include "controller/store/store_tools.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/files/file.h"
#include "tests/controller/store/store_folder.h"

namespace espalier::controller {
namespace {

class StoreToolsTest : public StoreFolder {
 protected:
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string Read(const std::string& path) { return io::ReadFile(path).value(); }
  static std::string ErrorOf(const std::string& path) {
    const auto file = OpenStore(path);
    return file ? "no error" : file.error().message;
  }
};

TEST_F(StoreToolsTest, IsForItsOwnerAlone) {
  const auto mode_of = [](const std::string& path) {
    return std::filesystem::status(path).permissions();
  };
  constexpr auto kOwner = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  const std::string backup = folder_.path() + "/backup.db";
  Commit(path_, Failed("l1"));
  EXPECT_EQ(mode_of(path_), kOwner);
  ASSERT_TRUE(BackUpStore(path_, backup));
  EXPECT_EQ(mode_of(backup), kOwner);
  // With the mode that older versions gave it.
  std::filesystem::permissions(path_, std::filesystem::perms(0644));
  Commit(path_, Failed("l2"));
  EXPECT_EQ(mode_of(path_), kOwner);
}

TEST_F(StoreToolsTest, BacksUpAndRestores) {
  const std::string backup = folder_.path() + "/backup.db";
  Commit(path_, Failed("l1"));
  StoreFile running = OpenStore(path_).value();
  running.Begin(kNow).value();
  ASSERT_TRUE(running.Commit({.intents = Failed("l2")}, kNow).has_value());
  const auto saved = BackUpStore(path_, backup);  // while it is open
  ASSERT_TRUE(saved.has_value()) << saved.error().message;
  EXPECT_EQ(saved->revision, 2U);
  EXPECT_EQ(saved->intents, 1);
  EXPECT_EQ(BackUpStore(path_, backup).error().code, ErrorCode::kAlreadyExists);
  ASSERT_TRUE(running.Commit({.intents = Failed("l3")}, kNow).has_value());
  {
    const UniqueFd controller = LockStore(path_).value();
    EXPECT_EQ(RestoreStore(path_, backup).error().code, ErrorCode::kFailedPrecondition);
  }
  const auto restored = RestoreStore(path_, backup);
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  EXPECT_EQ(Begin(path_).intents, Failed("l2"));
  EXPECT_EQ(Begin(path_ + ".before-restore").intents, Failed("l3"));
}

TEST_F(StoreToolsTest, RestoresOnlyAValidStore) {
  Commit(path_, Failed("l1"));
  const std::string broken = folder_.path() + "/broken.db";
  Write(broken, std::string(8'192, 'x'));
  EXPECT_EQ(RestoreStore(path_, broken).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(RestoreStore(path_, folder_.path() + "/none.db").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Begin(path_).intents, Failed("l1"));
}

TEST_F(StoreToolsTest, ChecksWithoutChanging) {
  EXPECT_EQ(CheckStore(path_).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path_));
  Commit(path_, Failed("l1"));
  const std::string before = Read(path_);
  const auto summary = CheckStore(path_);
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  EXPECT_EQ(summary->schema_version, 8);
  EXPECT_EQ(summary->epoch, 1U);
  EXPECT_EQ(summary->revision, 1U);
  EXPECT_EQ(Read(path_), before);
}

TEST_F(StoreToolsTest, FindsDamage) {
  Intents many;
  for (int i = 0; i < 400; ++i) many.failed_links["link" + std::to_string(i)].reason = "optics";
  Commit(path_, many);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  const auto size = std::filesystem::file_size(path_);
  for (std::size_t at = 4'096; at + 512 < size; at += 4'096) {
    file.seekp(static_cast<std::streamoff>(at));
    file << std::string(512, '\x5a');
  }
  file.close();
  const auto summary = CheckStore(path_);
  ASSERT_FALSE(summary.has_value());
  EXPECT_EQ(summary.error().code, ErrorCode::kFailedPrecondition) << summary.error().message;
  EXPECT_NE(summary.error().message.find("espalier store restore"), std::string::npos);
  EXPECT_NE(ErrorOf(path_).find("espalier store restore"), std::string::npos);
}

TEST_F(StoreToolsTest, RefusesANewerOrForeignDatabase) {
  Commit(path_, Failed("l1"));
  {
    Database database = Database::Open(path_).value();
    ASSERT_TRUE(database.Execute("PRAGMA user_version = 99").has_value());
  }
  EXPECT_NE(ErrorOf(path_).find("its schema has version 99"), std::string::npos) << ErrorOf(path_);
  EXPECT_NE(ErrorOf(path_).find("upgrade"), std::string::npos);
  const std::string foreign = folder_.path() + "/foreign.db";
  {
    Database database = Database::Open(foreign).value();
    ASSERT_TRUE(database.Execute("CREATE TABLE songs(title)").has_value());
  }
  EXPECT_NE(ErrorOf(foreign).find("not a store of Espalier"), std::string::npos);
  EXPECT_FALSE(RestoreStore(path_, foreign).has_value());
}

// Changes keep values that another version wrote and this one cannot read.
TEST_F(StoreToolsTest, KeepsUnreadableValues) {
  StoreFile file = OpenStore(path_).value();
  file.Begin(kNow).value();
  Intents intents = Failed("l1");
  intents.jobs["train"].value = UnreadableValue{"telepathy 0 inline\n"};
  intents.weights["train"].value = UnreadableValue{"heavy"};
  intents.policies["manners"].value = UnreadableValue{"good"};
  ASSERT_TRUE(file.Commit({.intents = intents}, kNow).has_value());
  EXPECT_EQ(file.ReadIntents(1).value(), intents);
  intents.failed_links.clear();
  ASSERT_TRUE(file.Commit({.intents = intents}, kNow).has_value());
  EXPECT_EQ(Begin(path_).intents, intents);
  // They were written once.
  EXPECT_EQ(file.database()
                .ReadInteger("SELECT count(*) FROM intent WHERE from_revision = 1 AND to_revision "
                             "IS NULL AND detail IN ('heavy', 'good', 'telepathy 0 inline' || "
                             "char(10))")
                .value(),
            3);
}

TEST_F(StoreToolsTest, RefusesTwoControllersAndAMissingFolder) {
  const UniqueFd first = LockStore(path_).value();
  const auto second = LockStore(path_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(LockStore(folder_.path() + "/missing/store.db").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace espalier::controller
