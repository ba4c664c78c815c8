#include "controller/store/store_tools.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/files/json.h"
#include "controller/store/schema.h"
#include "tests/temporary_folder.h"

namespace espalier::controller {
namespace {

const WallTime kNow{std::chrono::microseconds(1'795'253'938'907'654)};

Intents Failed(const std::string& link) {
  Intents intents;
  intents.failed_links[link] = {"optics", "user ada", kNow, std::nullopt};
  return intents;
}

class StoreToolsTest : public testing::Test {
 protected:
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string Read(const std::string& path) { return io::ReadFile(path).value(); }
  // The state, by the way of a controller that starts.
  static StoredState Begin(const std::string& path) {
    Result<StoreFile> file = OpenStore(path, kNow);
    EXPECT_TRUE(file.has_value()) << file.error().message;
    return file->Begin(kNow).value();
  }
  static void Commit(const std::string& path, const Intents& intents) {
    StoreFile file = OpenStore(path, kNow).value();
    file.Begin(kNow).value();
    ASSERT_TRUE(file.Commit({.intents = intents}, kNow).has_value());
  }
  static std::string ErrorOf(const std::string& path) {
    const auto file = OpenStore(path, kNow);
    return file ? "no error" : file.error().message;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/store.db";
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
  // As older versions made it.
  std::filesystem::permissions(path_, std::filesystem::perms(0644));
  Commit(path_, Failed("l2"));
  EXPECT_EQ(mode_of(path_), kOwner);
}

TEST_F(StoreToolsTest, BacksUpAndRestores) {
  const std::string backup = folder_.path() + "/backup.db";
  Commit(path_, Failed("l1"));
  StoreFile running = OpenStore(path_, kNow).value();
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

TEST_F(StoreToolsTest, RestoresOnlyWhatIsAStore) {
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
  EXPECT_EQ(summary->schema_version, 6);
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
  EXPECT_NE(ErrorOf(path_).find("its schema is version 99"), std::string::npos) << ErrorOf(path_);
  EXPECT_NE(ErrorOf(path_).find("upgrade"), std::string::npos);
  const std::string foreign = folder_.path() + "/foreign.db";
  {
    Database database = Database::Open(foreign).value();
    ASSERT_TRUE(database.Execute("CREATE TABLE songs(title)").has_value());
  }
  EXPECT_NE(ErrorOf(foreign).find("no store of Espalier's"), std::string::npos);
  EXPECT_FALSE(RestoreStore(path_, foreign).has_value());
}

TEST_F(StoreToolsTest, MigratesInOneTransaction) {
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
  // The program of before does not touch what it does not know.
  EXPECT_EQ(Migrate(database, StoreMigrations()).error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(StoreToolsTest, ReadsAStoreOfTheFirstSchema) {
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
  StoreFile file = OpenStore(path_, kNow).value();
  const StoredState state = file.Begin(kNow).value();
  EXPECT_EQ(state.intents.failed_links.at("l1").reason, "optics");
  EXPECT_EQ(state.intents.failed_links.at("l1").value, IntentValue());
}

// Another version may have written what this one cannot read: changes leave it as it is.
TEST_F(StoreToolsTest, KeepsTheValuesThatItCannotRead) {
  StoreFile file = OpenStore(path_, kNow).value();
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

TEST_F(StoreToolsTest, KeepsTheAuditLogAppendOnly) {
  StoreFile file = OpenStore(path_, kNow).value();
  file.Begin(kNow).value();
  ASSERT_TRUE(file.Commit({.audit = AuditEntry{.action = "fail link"}}, kNow).has_value());
  for (const char* sql : {"UPDATE audit SET actor = 'nobody'", "DELETE FROM audit"}) {
    const auto done = file.database().Execute(sql);
    ASSERT_FALSE(done.has_value()) << sql;
    EXPECT_NE(done.error().message.find("append-only"), std::string::npos);
  }
}

constexpr const char* kLegacy =
    "{\"epoch\": 7, \"failed_links\": {\"l1\": \"optics\"}, \"failed_nodes\": {},\n"
    " \"drained_links\": {\"l2\": \"\"}, \"restored_links\": {}}\n";

TEST_F(StoreToolsTest, ImportsTheFileOfBeforeOnce) {
  for (const std::string& legacy : {path_, folder_.path() + "/sub/intents.json"}) {
    SCOPED_TRACE(legacy);
    std::filesystem::create_directory(folder_.path() + "/sub");
    const std::string store = legacy == path_ ? path_ : folder_.path() + "/sub/store.db";
    Write(legacy, kLegacy);
    const StoredState state = Begin(store);
    EXPECT_EQ(state.epoch, 8U);
    EXPECT_EQ(state.intents.failed_links.at("l1"),
              (Intent{"optics", "import", kNow, std::nullopt}));
    EXPECT_TRUE(state.intents.drained_links.contains("l2"));
    EXPECT_EQ(Read(legacy + ".imported"), kLegacy);
    Commit(store, Failed("l3"));
    if (legacy != store) Write(legacy, kLegacy);  // is not looked at again
    EXPECT_EQ(Begin(store).intents, Failed("l3"));
  }
}

TEST_F(StoreToolsTest, NamesThePlaceOfWhatItCannotImport) {
  Write(path_, "{\"epoch\": 1,\n \"failed_links\": [1]}");
  EXPECT_NE(ErrorOf(path_).find(path_ + ":2:"), std::string::npos) << ErrorOf(path_);
  Write(path_, "{\"epoch\": 1, \"unknown\": {}}");
  EXPECT_NE(ErrorOf(path_).find("unknown"), std::string::npos);
  EXPECT_EQ(Read(path_), "{\"epoch\": 1, \"unknown\": {}}");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".imported"));
}

TEST_F(StoreToolsTest, RefusesTwoControllersAndAMissingFolder) {
  const UniqueFd first = LockStore(path_).value();
  const auto second = LockStore(path_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(LockStore(folder_.path() + "/missing/store.db").error().code, ErrorCode::kNotFound);
}

// The clock was a year ahead once, for one action.
TEST_F(StoreToolsTest, AClockThatWasAheadDoesNotKeepTheControllerDown) {
  Commit(path_, Failed("l1"));  // at kNow
  StoreFile file = OpenStore(path_, kNow).value();
  const WallTime earlier = kNow - std::chrono::hours(24 * 365);
  const auto state = file.Begin(earlier);
  ASSERT_TRUE(state.has_value()) << state.error().message;
  EXPECT_EQ(state->change_to_come, kNow);
  EXPECT_EQ(state->intents, Failed("l1"));
  for (const char* link : {"l2", "l3"}) {
    ASSERT_TRUE(file.Commit({.intents = Failed(link)}, earlier).has_value());
  }
  EXPECT_EQ(
      file.database()
          .ReadInteger("SELECT count(*) FROM revision AS a JOIN revision AS b ON a.revision < "
                       "b.revision AND a.time_us >= b.time_us")
          .value(),
      0);
  EXPECT_FALSE(file.Begin(kNow + std::chrono::hours(1)).value().change_to_come.has_value());
}

TEST_F(StoreToolsTest, PrunesWhatIsOldAndKeepsWhatIsInForce) {
  StoreFile file = OpenStore(path_, kNow).value();
  file.Begin(kNow).value();
  const StoreLimits limits{.audit_kept = 5, .audit_moves = 100, .revisions = 10};
  Intents intents = Failed("kept");
  const auto act = [&](int number, WallTime when) {
    intents.drained_links.clear();
    intents.drained_links["l" + std::to_string(number)].reason = "work";
    const auto done = file.Commit(
        {.intents = intents, .audit = AuditEntry{.time = when, .action = "drain"}}, when);
    ASSERT_TRUE(done.has_value()) << done.error().message;
    const std::vector<AuditMove> moves(10, {"h0:1", "job", "spine0", "spine1"});
    ASSERT_TRUE(file.FinishAudit(done->audit_sequence, moves).has_value());
  };
  for (int i = 1; i <= 40; ++i) act(i, kNow + std::chrono::hours(i));
  const auto count = [&](const std::string& table) {
    return file.database().ReadInteger("SELECT count(*) FROM " + table).value();
  };
  int steps = 0;
  const WallTime now = kNow + std::chrono::hours(40);
  while (file.PruneSome(now, limits).value() && ++steps < 100) continue;
  EXPECT_LE(count("audit_move"), 100);
  EXPECT_GE(count("audit_move"), 90);
  EXPECT_EQ(file.ReadAudit(0, 1'000).value().back().sequence, 40U);
  EXPECT_EQ(file.ReadAudit(0, 1'000).value().front().moves.size(), 10U);
  EXPECT_LE(count("revision"), 12);
  EXPECT_EQ(file.ReadIntents(40).value(), intents);
  EXPECT_TRUE(file.ReadIntents(31).value().failed_links.contains("kept"));
  EXPECT_EQ(file.ReadIntents(1).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(file.Begin(now).value().intents, intents);
  // By age, but never the latest, whatever the clock says.
  const WallTime far = now + std::chrono::hours(24 * 1'000);
  for (steps = 0; file.PruneSome(far, limits).value() && ++steps < 100;) continue;
  EXPECT_EQ(file.ReadAudit(0, 1'000).value().size(), 5U);
  // All else stays append-only.
  EXPECT_FALSE(file.database().Execute("DELETE FROM audit").has_value());
}

TEST_F(StoreToolsTest, EventsOfOneSourceDisplaceNoOthers) {
  StoreFile file = OpenStore(path_, kNow).value();
  file.Begin(kNow).value();
  ASSERT_TRUE(file.AppendEvents({{1, kNow, "link_failed", "link=l1"}}).has_value());
  std::uint64_t next = 2;
  for (int batch = 0; batch < 60; ++batch) {
    std::vector<StoredEvent> events;
    for (int i = 0; i < 100; ++i) events.push_back({next++, kNow, "probe_failed", "", "h1"});
    events.push_back({next++, kNow, "agent_up", "", "h2"});
    ASSERT_TRUE(file.AppendEvents(events).has_value());
  }
  const auto count = [&](const std::string& where) {
    return file.database().ReadInteger("SELECT count(*) FROM event WHERE " + where).value();
  };
  EXPECT_EQ(count("source = ''"), 1);
  EXPECT_EQ(count("source = 'h1'"), 2'000);
  EXPECT_EQ(count("source = 'h2'"), 60);
  const auto events = file.Begin(kNow).value().events;
  EXPECT_EQ(events.front().kind, "link_failed");
  EXPECT_EQ(events.back().source, "h2");
}

TEST_F(StoreToolsTest, RefusesAWriterThatIsNotTheLatest) {
  StoreFile older = OpenStore(path_, kNow).value();
  older.Begin(kNow).value();
  Commit(path_, Failed("l1"));
  const auto refused = older.Commit({.intents = Failed("l2")}, kNow);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(Begin(path_).intents, Failed("l1"));
}

}  // namespace
}  // namespace espalier::controller
