#include "controller/store/sqlite_database.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tests/temporary_folder.h"

namespace espalier::controller {
namespace {

class SqliteDatabase : public testing::Test {
 protected:
  Database Open() { return Database::Open(path_).value(); }
  // A database with one table of one column, empty.
  Database MakeTable() {
    Database database = Open();
    EXPECT_TRUE(database.Execute("CREATE TABLE word(text)").has_value());
    return database;
  }
  static std::int64_t Words(Database& database) {
    return database.ReadInteger("SELECT count(*) FROM word").value();
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/words.db";
};

TEST_F(SqliteDatabase, ReturnsBoundValues) {
  Database database = Open();
  ASSERT_TRUE(database.Execute("CREATE TABLE t(a, b, c, d)").has_value());
  Statement insert = database.Prepare("INSERT INTO t VALUES (?, ?, ?, ?)").value();
  const std::string odd("it's \"odd\"\0 \xc3\xaf", 14);
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  ASSERT_TRUE(
      insert.Bind(kLeast, std::string_view(odd), std::optional<std::int64_t>(), std::string_view())
          .Run()
          .has_value());
  ASSERT_TRUE(insert
                  .Bind(std::int64_t{7}, std::string_view("x"), std::optional<std::int64_t>(8),
                        std::string_view("y"))
                  .Run()
                  .has_value());
  Statement select = database.Prepare("SELECT a, b, c, d FROM t WHERE a <= ? ORDER BY a").value();
  for (int round = 0; round < 2; ++round) {  // bound again, it begins again
    select.Bind(std::int64_t{7});
    ASSERT_TRUE(select.Step().value());
    EXPECT_EQ(select.Integer(0), kLeast);
    EXPECT_EQ(select.Text(1), odd);
    EXPECT_EQ(select.OptionalInteger(2), std::nullopt);
    EXPECT_EQ(select.Text(3), "");
    ASSERT_TRUE(select.Step().value());
    EXPECT_EQ(select.OptionalInteger(2), 8);
    if (round == 1) {
      EXPECT_FALSE(select.Step().value());
    }
  }
  EXPECT_EQ(database.ReadInteger("SELECT count(*) FROM t WHERE d IS NULL").value(), 0);
}

TEST_F(SqliteDatabase, ATransactionHappensWholeOrNotAtAll) {
  Database database = MakeTable();
  const auto add = [&](const std::string& sql) { return database.Execute(sql); };
  ASSERT_TRUE(
      database.Transact([&] { return add("INSERT INTO word VALUES ('a'), ('b')"); }).has_value());
  const auto failed = database.Transact([&]() -> Result<void> {
    EXPECT_TRUE(add("INSERT INTO word VALUES ('c')").has_value());
    return Fail(ErrorCode::kInvalidArgument, "no more words");
  });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "no more words");
  EXPECT_EQ(Words(database), 2);
  EXPECT_FALSE(database
                   .Transact([&]() -> Result<void> {
                     EXPECT_TRUE(add("INSERT INTO word VALUES ('c')").has_value());
                     return add("INSERT INTO nothing VALUES (1)");
                   })
                   .has_value());
  EXPECT_EQ(Words(database), 2);
  // The failed transaction has ended.
  ASSERT_TRUE(database.Transact([&] { return add("INSERT INTO word VALUES ('c')"); }).has_value());
  EXPECT_EQ(Words(database), 3);
}

TEST_F(SqliteDatabase, OpensOnlyAsTheOptionsAllow) {
  const auto missing = Database::Open(path_, {.create = false});
  ASSERT_FALSE(missing.has_value());
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(Database::Open(path_, {.read_only = true}).has_value());
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(Database::Open(folder_.path() + "/none/words.db").error().code,
            ErrorCode::kPermissionDenied);
  MakeTable();
  Database reader = Database::Open(path_, {.read_only = true}).value();
  EXPECT_EQ(Words(reader), 0);
  EXPECT_EQ(reader.Execute("DELETE FROM word").error().code, ErrorCode::kPermissionDenied);
}

TEST_F(SqliteDatabase, ErrorsNameTheFileAndTheRemedy) {
  std::ofstream(path_) << std::string(8'192, 'x');
  const auto opened = Database::Open(path_);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(opened.error().message.starts_with(path_ + ": ")) << opened.error().message;
  EXPECT_TRUE(opened.error().message.ends_with(
      "(it is damaged or not a database: replace it by a backup with espalier store restore)"))
      << opened.error().message;
  std::filesystem::remove(path_);
  Database database = MakeTable();
  EXPECT_EQ(database.Prepare("SELECT * FROM nothing").error().code, ErrorCode::kInternal);
  EXPECT_EQ(database.ReadText("SELECT text FROM word").error().code, ErrorCode::kInternal);
  EXPECT_TRUE(database.CheckStructure().has_value());
}

// A writer waits for another one for a while, and then reports it.
TEST_F(SqliteDatabase, AllowsOneWriterAndOtherReaders) {
  Database first = MakeTable();
  Database second = Open();
  ASSERT_TRUE(first.Execute("BEGIN IMMEDIATE; INSERT INTO word VALUES ('a')").has_value());
  EXPECT_EQ(Words(second), 0);
  ASSERT_TRUE(second.Execute("PRAGMA busy_timeout = 1").has_value());
  const auto refused = second.Transact([&] { return second.Execute("DELETE FROM word"); });
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  ASSERT_TRUE(first.Execute("COMMIT").has_value());
  EXPECT_EQ(Words(second), 1);
}

TEST_F(SqliteDatabase, ACopyHoldsAllCommittedDataInOneFile) {
  Database database = MakeTable();
  ASSERT_TRUE(database.Execute("INSERT INTO word VALUES ('a')").has_value());
  const std::string copy = folder_.path() + "/copy.db";
  ASSERT_TRUE(database.CopyTo(copy).has_value());
  ASSERT_TRUE(database.Execute("INSERT INTO word VALUES ('b')").has_value());
  EXPECT_FALSE(std::filesystem::exists(copy + "-wal"));
  struct stat status {};
  ASSERT_EQ(::stat(copy.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  Database copied = Database::Open(copy, {.read_only = true}).value();
  EXPECT_EQ(Words(copied), 1);
  EXPECT_FALSE(database.CopyTo(copy).has_value()) << "it is in the way";
}

}  // namespace
}  // namespace espalier::controller
