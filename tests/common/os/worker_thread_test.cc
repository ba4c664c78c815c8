#include "common/os/worker_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <vector>

namespace espalier {
namespace {

using AtEnd = WorkerThread::AtEnd;

TEST(WorkerThread, DoesWorkInTheOrderInWhichItWasPosted) {
  std::vector<int> done;
  {
    WorkerThread thread(AtEnd::kDone);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(thread.Post([&done, i] { done.push_back(i); }));
    }
    thread.Post([&] { thread.Post([&done] { done.push_back(-1); }); });
  }
  ASSERT_EQ(done.size(), 101U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
}

TEST(WorkerThread, DoesAtItsEndWhatWaitsOrDropsIt) {
  for (const AtEnd at_end : {AtEnd::kDone, AtEnd::kDropped}) {
    std::atomic<int> done = 0;
    const auto dropped = std::make_shared<int>();
    std::latch begun(1);
    std::latch may_go_on(1);
    auto thread = std::make_unique<WorkerThread>(at_end);
    thread->Post([&] {
      begun.count_down();
      may_go_on.wait();
      ++done;
    });
    begun.wait();
    thread->Post([&, dropped] { ++done; });
    // The destructor waits for the current piece. The piece may end before or during that, but it
    // must end.
    std::thread owner([&] { thread.reset(); });
    may_go_on.count_down();
    owner.join();
    if (at_end == AtEnd::kDone) {
      EXPECT_EQ(done, 2);
    } else {
      EXPECT_GE(done, 1);
    }
    EXPECT_EQ(dropped.use_count(), 1);
  }
}

TEST(WorkerThread, TakesNoMoreThanMayWait) {
  std::latch may_go_on(1);
  std::latch begun(1);
  WorkerThread thread(AtEnd::kDone);
  thread.Post([&] {
    begun.count_down();
    may_go_on.wait();
  });
  begun.wait();
  EXPECT_TRUE(thread.Post([] {}, 2));
  EXPECT_TRUE(thread.Post([] {}, 2));
  EXPECT_FALSE(thread.Post([] {}, 2));
  EXPECT_TRUE(thread.Post([] {}));
  may_go_on.count_down();
}

}  // namespace
}  // namespace espalier
