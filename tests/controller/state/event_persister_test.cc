// The event history in the store, by wall time.
#include "controller/state/event_persister.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/sim/sim_world.h"
#include "controller/store/memory_store.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kWall{std::chrono::hours(1'000)};

class Persister : public testing::Test {
 protected:
  Persister() { world_.RunFor(1h); }
  EventPersister Make(EventHistory& history) {
    return EventPersister(history, store_, *loop_, [this] { return wall_; });
  }
  std::vector<std::uint64_t> Stored() const {
    std::vector<std::uint64_t> sequences;
    for (const StoredEvent& event : disk_.events) sequences.push_back(event.sequence);
    return sequences;
  }

  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  WallTime wall_ = kWall;
  MemoryDisk disk_;
  MemoryStore store_{disk_, *loop_};
  EventHistory history_;
};

TEST_F(Persister, StoresEachEventOnceWithWallTime) {
  EventPersister persister = Make(history_);
  history_.Record(loop_->Now() - 3s, "did", "it");
  history_.RecordOf("h0", loop_->Now(), "up", "h0");
  persister.StoreNew();
  persister.StoreNew();
  EXPECT_EQ(disk_.events, (std::vector<StoredEvent>{{1, kWall - 3s, "did", "it", ""},
                                                    {2, kWall, "up", "h0", "h0"}}));
  history_.Record(loop_->Now(), "did", "more");
  persister.StoreNew();
  EXPECT_EQ(Stored(), (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(Persister, StoresManyEventsInSeveralCalls) {
  EventPersister persister = Make(history_);
  for (int i = 0; i < 1'500; ++i) history_.Record(loop_->Now(), "did", "");
  persister.StoreNew();
  EXPECT_EQ(disk_.events.size(), 1'000U);
  persister.StoreNew();
  EXPECT_EQ(disk_.events.size(), 1'500U);
  EXPECT_EQ(disk_.events.back().sequence, 1'500U);
}

TEST_F(Persister, StoresRemainingEventsWhenItEnds) {
  {
    EventPersister persister = Make(history_);
    history_.Record(loop_->Now(), "did", "the last");
  }
  EXPECT_EQ(Stored(), (std::vector<std::uint64_t>{1}));
}

TEST_F(Persister, RestoresWithLoopTimeAndStoresNothingTwice) {
  const std::string deprecated = "prediction_off";  // a deprecated kind
  const std::vector<StoredEvent> before = {{5, kWall - 90s, deprecated, "job=train", ""},
                                           {6, kWall - 30s, "up", "h0", "h0"}};
  EventPersister persister = Make(history_);
  persister.Restore(before);
  const auto events = history_.Since(0, 10);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].time, loop_->Now() - 90s);
  EXPECT_EQ(events[0].kind, deprecated);
  EXPECT_EQ(events[1].source, "h0");
  persister.StoreNew();
  EXPECT_TRUE(disk_.events.empty());
  history_.Record(loop_->Now(), "did", "more");
  persister.StoreNew();
  ASSERT_EQ(disk_.events.size(), 1U);
  EXPECT_GT(disk_.events[0].sequence, 6U);
}

TEST_F(Persister, RestoresStoredEventsIntoAnotherHistory) {
  {
    EventPersister persister = Make(history_);
    history_.Record(loop_->Now() - 2s, "did", "it");
  }
  world_.RunFor(10s);
  wall_ += 10s;
  EventHistory next;
  EventPersister persister = Make(next);
  persister.Restore(disk_.events);
  ASSERT_EQ(next.Since(0, 10).size(), 1U);
  EXPECT_EQ(next.Since(0, 10)[0].time, loop_->Now() - 12s);
}

}  // namespace
}  // namespace espalier::controller
