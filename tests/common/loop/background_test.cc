#include "common/loop/background.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

#include "common/loop/asio_event_loop.h"

namespace espalier::io {
namespace {

struct Ran {
  std::thread::id thread;
  int nice = 0;
};

// What a piece of work sees. Returns when the loop was told that it is done.
Ran RunPieceOfWork(Background::Priority priority) {
  AsioEventLoop loop;
  Background background(loop, priority);
  Ran ran;
  background.Run(
      [&] {
        ran = {std::this_thread::get_id(), getpriority(PRIO_PROCESS, 0)};
      },
      [&] { loop.Stop(); });
  loop.Run();
  return ran;
}

TEST(Background, WorksOnAThreadOfItsOwnAndTellsTheLoop) {
  const Ran ran = RunPieceOfWork(Background::Priority::kNormal);
  EXPECT_NE(ran.thread, std::this_thread::get_id());
  EXPECT_EQ(ran.nice, getpriority(PRIO_PROCESS, 0));
}

TEST(Background, OfLowPriorityLeavesTheProcessorToOthers) {
  constexpr int kNicest = 19;
  const int own = getpriority(PRIO_PROCESS, 0);
  if (own == kNicest) GTEST_SKIP() << "this process has the lowest priority itself";
  EXPECT_GT(RunPieceOfWork(Background::Priority::kLow).nice, own);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), own);  // of the loop's thread
}

}  // namespace
}  // namespace espalier::io
