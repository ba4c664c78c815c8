#include "controller/store/store_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "controller/store/schema.h"
#include "tests/controller/store/store_folder.h"

namespace espalier::controller {
namespace {

class StoreFileTest : public StoreFolder {};

// The clock was a year ahead once, for one action.
TEST_F(StoreFileTest, AClockThatWasAheadDoesNotPreventAStart) {
  Commit(path_, Failed("l1"));  // at kNow
  StoreFile file = OpenStore(path_).value();
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

TEST_F(StoreFileTest, EventsOfOneSourceDisplaceNoOthers) {
  StoreFile file = OpenAndBegin(path_);
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

TEST_F(StoreFileTest, RefusesAWriterThatIsNotTheLatest) {
  StoreFile older = OpenAndBegin(path_);
  Commit(path_, Failed("l1"));
  const auto refused = older.Commit({.intents = Failed("l2")}, kNow);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(Begin(path_).intents, Failed("l1"));
}

TEST_F(StoreFileTest, SummarisesItsContents) {
  StoreFile file = OpenAndBegin(path_);
  Intents two = Failed("l1");
  two.drained_nodes["spine0"].reason = "work";
  ASSERT_TRUE(file.Commit({.intents = two}, kNow).has_value());
  const AuditEntry entry{.time = kNow, .action = "restore link"};
  ASSERT_TRUE(file.Commit({.intents = Failed("l1"), .audit = entry}, kNow).has_value());
  ASSERT_TRUE(file.AppendEvents({{1, kNow, "a", ""}, {2, kNow, "b", ""}}).has_value());
  const StoreFile::Summary summary = file.Summarise().value();
  EXPECT_EQ(summary.schema_version, static_cast<std::int64_t>(StoreMigrations().size()));
  EXPECT_EQ(summary.epoch, 1U);
  EXPECT_EQ(summary.revision, 2U);
  EXPECT_EQ(summary.intents, 1);  // in force
  EXPECT_EQ(summary.audit_entries, 1);
  EXPECT_EQ(summary.events, 2);
}

TEST_F(StoreFileTest, ReturnsTheLatestAuditEntriesOldestFirst) {
  StoreFile file = OpenAndBegin(path_);
  for (int i = 1; i <= 5; ++i) {
    const AuditEntry entry{.time = kNow, .action = std::to_string(i)};
    EXPECT_EQ(file.Commit({.audit = entry}, kNow).value().audit_sequence, std::uint64_t(i));
  }
  const auto actions = [&](std::uint64_t since, std::size_t most) {
    std::string all;
    const std::vector<AuditEntry> entries = file.ReadAudit(since, most).value();
    for (const AuditEntry& entry : entries) all += entry.action;
    return all;
  };
  EXPECT_EQ(actions(0, 100), "12345");
  EXPECT_EQ(actions(0, 2), "45");
  EXPECT_EQ(actions(3, 100), "45");
  EXPECT_EQ(actions(3, 1), "5");
  EXPECT_EQ(actions(5, 100), "");
  EXPECT_EQ(actions(0, 0), "");
}

// The moves of an action become known all at once.
TEST_F(StoreFileTest, AnActionIsFinishedOnce) {
  StoreFile file = OpenAndBegin(path_);
  ASSERT_TRUE(file.Commit({.audit = AuditEntry{.time = kNow}}, kNow).has_value());
  EXPECT_EQ(file.ReadAudit(0, 1).value().front().result, AuditResult::kUnfinished);
  const std::vector<AuditMove> moves = {{"h0:1", "job", "spine0", "spine1"}};
  ASSERT_TRUE(file.FinishAudit(1, moves).has_value());
  EXPECT_FALSE(file.FinishAudit(1, moves).has_value());
  const AuditEntry done = file.ReadAudit(0, 1).value().front();
  EXPECT_EQ(done.result, AuditResult::kDone);
  EXPECT_EQ(done.moves, moves);
}

TEST_F(StoreFileTest, AnOlderSchemaStaysIfItIsOnlyRead) {
  {
    Database database = Database::Open(path_).value();
    ASSERT_TRUE(Migrate(database, StoreMigrations().first(1)).has_value());
  }
  StoreFile read = StoreFile::OpenAsItIs(Database::Open(path_).value()).value();
  EXPECT_EQ(read.Summarise().value().schema_version, 1);
  Database other = Database::Open(folder_.path() + "/other.db").value();
  EXPECT_EQ(StoreFile::OpenAsItIs(std::move(other)).error().code, ErrorCode::kFailedPrecondition);
  StoreFile opened = StoreFile::Open(Database::Open(path_).value()).value();
  EXPECT_EQ(opened.Summarise().value().schema_version,
            static_cast<std::int64_t>(StoreMigrations().size()));
}

TEST_F(StoreFileTest, RefusesUnknownKinds) {
  Commit(path_, Failed("l1"));
  StoreFile file = OpenStore(path_).value();
  ASSERT_TRUE(file.database().Execute("UPDATE intent SET kind = 'wish'").has_value());
  const auto begun = file.Begin(kNow);
  ASSERT_FALSE(begun.has_value());
  EXPECT_EQ(begun.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(begun.error().message.find("unknown kind \"wish\""), std::string::npos)
      << begun.error().message;
  ASSERT_TRUE(file.database().Execute("UPDATE secret SET value = 'short'").has_value());
  EXPECT_NE(file.Begin(kNow).error().message.find("the secret for the keys of jobs is damaged"),
            std::string::npos);
}

}  // namespace
}  // namespace espalier::controller
