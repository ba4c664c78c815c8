#include "controller/store/schema.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/controller/store/store_folder.h"

namespace espalier::controller {
namespace {

class SchemaTest : public StoreFolder {
 protected:
  Database Open(const std::string& name = "store.db") {
    return Database::Open(folder_.path() + "/" + name).value();
  }
  // The whole schema, and the initial rows of the tables of settings.
  static std::string Everything(Database& database) {
    return database
               .ReadText(
                   "SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema WHERE "
                   "sql IS NOT NULL ORDER BY type, name)")
               .value() +
           database
               .ReadText(
                   "SELECT group_concat(key || '=' || value) FROM (SELECT * FROM meta ORDER "
                   "BY key)")
               .value();
  }
};

TEST_F(SchemaTest, MigratesInOneTransaction) {
  const auto newest = static_cast<std::int64_t>(StoreMigrations().size());
  std::vector<const char*> good(StoreMigrations().begin(), StoreMigrations().end());
  good.push_back("CREATE TABLE standby(id TEXT)");
  std::vector<const char*> bad = good;
  bad.push_back("CREATE TABLE broken(");
  Commit(path_, Failed("l1"));
  Database database = Database::Open(path_).value();
  EXPECT_FALSE(Migrate(database, bad).has_value());
  EXPECT_EQ(ReadSchemaVersion(database, good).value(), newest);
  EXPECT_FALSE(database.Prepare("SELECT * FROM standby").has_value());
  ASSERT_TRUE(Migrate(database, good).has_value());
  EXPECT_EQ(ReadSchemaVersion(database, good).value(), newest + 1);
  EXPECT_TRUE(database.Prepare("SELECT * FROM standby").has_value());
  EXPECT_EQ(database.ReadInteger("SELECT count(*) FROM intent").value(), 1);
  EXPECT_TRUE(Migrate(database, good).has_value());
  // An earlier program does not touch a schema that it does not know.
  EXPECT_EQ(Migrate(database, StoreMigrations()).error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(SchemaTest, ReadsAStoreOfTheFirstSchema) {
  {
    Database database = Database::Open(path_).value();
    ASSERT_TRUE(Migrate(database, StoreMigrations().first(1)).has_value());
    ASSERT_TRUE(database
                    .Execute("INSERT INTO revision VALUES (1, 0, 't', 1);"
                             "UPDATE meta SET value = 1 WHERE key = 'revision';"
                             "INSERT INTO intent VALUES ('failed_link', 'l1', 'optics', 'ada', 0, "
                             "NULL, 1, NULL)")
                    .has_value());
  }
  StoreFile file = OpenStore(path_).value();
  const StoredState state = file.Begin(kNow).value();
  EXPECT_EQ(state.intents.failed_links.at("l1").reason, "optics");
  EXPECT_EQ(state.intents.failed_links.at("l1").value, IntentValue());
}

TEST_F(SchemaTest, KeepsTheAuditLogAppendOnly) {
  StoreFile file = OpenAndBegin(path_);
  ASSERT_TRUE(file.Commit({.audit = AuditEntry{.action = "fail link"}}, kNow).has_value());
  for (const char* sql : {"UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"}) {
    const auto done = file.database().Execute(sql);
    ASSERT_FALSE(done.has_value()) << sql;
    EXPECT_NE(done.error().message.find("append-only"), std::string::npos);
  }
}

TEST_F(SchemaTest, EveryVersionBecomesTheSameSchema) {
  Database fresh = Open("fresh.db");
  ASSERT_TRUE(Migrate(fresh, StoreMigrations()).has_value());
  const std::string expected = Everything(fresh);
  for (std::size_t version = 1; version <= StoreMigrations().size(); ++version) {
    SCOPED_TRACE(version);
    Database old = Open("old" + std::to_string(version) + ".db");
    ASSERT_TRUE(Migrate(old, StoreMigrations().first(version)).has_value());
    EXPECT_EQ(ReadSchemaVersion(old, StoreMigrations()).value(),
              static_cast<std::int64_t>(version));
    ASSERT_TRUE(Migrate(old, StoreMigrations()).has_value());
    EXPECT_EQ(Everything(old), expected);
  }
}

TEST_F(SchemaTest, ReadsOnlyAStoreOfAKnownVersion) {
  Database database = Open();
  const auto error_at = [&](std::int64_t application, std::int64_t version) {
    EXPECT_TRUE(database
                    .Execute("PRAGMA application_id = " + std::to_string(application) +
                             "; PRAGMA user_version = " + std::to_string(version))
                    .has_value());
    const auto read = ReadSchemaVersion(database, StoreMigrations());
    if (read) return std::string();
    EXPECT_EQ(read.error().code, ErrorCode::kFailedPrecondition);
    return read.error().message;
  };
  const auto newest = static_cast<std::int64_t>(StoreMigrations().size());
  EXPECT_NE(error_at(0, 1).find("not a store of Espalier"), std::string::npos);
  EXPECT_NE(error_at(kStoreApplicationId + 1, 1).find("not a store of Espalier"),
            std::string::npos);
  EXPECT_NE(error_at(kStoreApplicationId, 0).find("has version 0, but this program reads 1 to"),
            std::string::npos);
  EXPECT_NE(error_at(kStoreApplicationId, newest + 1).find("upgrade Espalier"), std::string::npos);
  EXPECT_EQ(error_at(kStoreApplicationId, 1), "");
  EXPECT_EQ(error_at(kStoreApplicationId, newest), "");
}

}  // namespace
}  // namespace espalier::controller
