// Tests the properties of a store in a file that not every store has (store_contract.h).
#include "controller/store/sqlite_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/loop/asio_event_loop.h"
#include "tests/controller/store/store_folder.h"

namespace espalier::controller {
namespace {

class SqliteStoreTest : public StoreFolder {
 protected:
  std::unique_ptr<Store> Open() {
    auto store = OpenSqliteStore(path_, loop_, [] { return kNow; });
    EXPECT_TRUE(store.has_value()) << store.error().message;
    EXPECT_TRUE((*store)->Begin().has_value());
    return std::move(*store);
  }

  io::AsioEventLoop loop_;
};

TEST_F(SqliteStoreTest, BelongsToOneProcessUntilItIsDestroyed) {
  auto store = Open();
  const auto second = OpenSqliteStore(path_, loop_, [] { return kNow; });
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kFailedPrecondition);
  store.reset();
  Open();
}

TEST_F(SqliteStoreTest, CompletesAllCallsBeforeItIsDestroyed) {
  constexpr int kChanges = 20;
  {
    const auto store = Open();
    for (int i = 0; i < kChanges; ++i) {
      store->Commit({.intents = Failed("l" + std::to_string(i))}, [](const auto&) {});
    }
  }
  const StoredState state = Begin(path_);
  EXPECT_EQ(state.revision, std::uint64_t{kChanges});
  EXPECT_EQ(state.intents, Failed("l" + std::to_string(kChanges - 1)));
}

// Another process holds the file: pending calls are limited, and none is lost or done twice.
TEST_F(SqliteStoreTest, RefusesChangesIfTooManyWait) {
  constexpr int kAsked = 400;
  const auto store = Open();
  Database other = Database::Open(path_).value();
  ASSERT_TRUE(other.Execute("BEGIN IMMEDIATE").has_value());
  std::vector<std::uint64_t> revisions;
  int refused = 0;
  int answers = 0;
  for (int i = 0; i < kAsked; ++i) {
    store->Commit({.intents = Failed(std::to_string(i))}, [&](const Result<Committed>& done) {
      if (++answers == kAsked) loop_.Stop();
      if (done) {
        revisions.push_back(done->revision);
      } else if (done.error().code == ErrorCode::kResourceExhausted) {
        EXPECT_NE(done.error().message.find("256 pending changes"), std::string::npos);
        ++refused;
      }
    });
  }
  EXPECT_EQ(answers, 0) << "answered inside a call";
  ASSERT_TRUE(other.Execute("ROLLBACK").has_value());
  loop_.Run();
  EXPECT_EQ(answers, kAsked);
  EXPECT_GE(refused, kAsked - 257 - 8);  // some may have waited for the other in vain
  ASSERT_FALSE(revisions.empty());
  for (std::size_t i = 0; i < revisions.size(); ++i) EXPECT_EQ(revisions[i], i + 1);
}

}  // namespace
}  // namespace espalier::controller
