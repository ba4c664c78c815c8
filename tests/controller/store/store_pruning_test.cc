// Tests which old data StoreFile deletes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/store/store_file.h"
#include "tests/controller/store/store_folder.h"

namespace espalier::controller {
namespace {

class StorePruningTest : public StoreFolder {};

TEST_F(StorePruningTest, PrunesOldDataAndKeepsIntentsInForce) {
  StoreFile file = OpenAndBegin(path_);
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
  // Prunes by age, but never the latest entries, whatever the clock says.
  const WallTime far = now + std::chrono::hours(24 * 1'000);
  for (steps = 0; file.PruneSome(far, limits).value() && ++steps < 100;) continue;
  EXPECT_EQ(file.ReadAudit(0, 1'000).value().size(), 5U);
  // All else stays append-only.
  EXPECT_FALSE(file.database().Execute("DELETE FROM audit").has_value());
}

// Each step is a short transaction of at most 1,000 rows of each table; the rest stays hidden.
TEST_F(StorePruningTest, DeletesInSmallSteps) {
  StoreFile file = OpenAndBegin(path_);
  constexpr int kEntries = 30;
  for (int i = 0; i < kEntries; ++i) {
    const auto done = file.Commit({.audit = AuditEntry{.time = kNow}}, kNow);
    const std::vector<AuditMove> moves(100, {"h0:1", "job", "spine0", "spine1"});
    ASSERT_TRUE(file.FinishAudit(done->audit_sequence, moves).has_value());
  }
  const auto moves = [&] {
    return file.database().ReadInteger("SELECT count(*) FROM audit_move").value();
  };
  const StoreLimits limits{.audit_moves = 150};
  std::int64_t before = moves();
  ASSERT_EQ(before, 100 * kEntries);
  int parts = 0;
  for (bool has_more = true; has_more; ++parts) {
    has_more = file.PruneSome(kNow, limits).value();
    EXPECT_LE(before - moves(), 1'000);
    before = moves();
    EXPECT_EQ(file.ReadAudit(0, 100).value().size(), 1U) << "the others are gone for readers";
  }
  EXPECT_GE(parts, 3);
  EXPECT_EQ(moves(), 100);
  EXPECT_EQ(file.Summarise().value().audit_entries, 1);
}

TEST_F(StorePruningTest, ChangesNothingWithinTheLimits) {
  StoreFile file = OpenAndBegin(path_);
  for (const char* link : {"l1", "l2", "l3"}) {
    const StoreChange change{.intents = Failed(link), .audit = AuditEntry{.time = kNow}};
    ASSERT_TRUE(file.Commit(change, kNow).has_value());
  }
  EXPECT_FALSE(file.PruneSome(kNow + std::chrono::hours(24 * 399), {}).value());
  EXPECT_EQ(file.ReadAudit(0, 100).value().size(), 3U);
  EXPECT_EQ(file.ReadIntents(1).value(), Failed("l1"));
}

}  // namespace
}  // namespace espalier::controller
