#include "common/loop/asio_event_loop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "tests/common/loop/asio_harness.h"
#include "tests/common/loop/event_loop_contract.h"

namespace espalier::io {
namespace {

class AsioHarness : public EventLoopHarness {
 public:
  EventLoop& loop() override { return loop_; }
  bool RunUntil(std::function<bool()> done) override { return io::RunUntil(loop_, done); }

 private:
  AsioEventLoop loop_;
};

std::unique_ptr<EventLoopHarness> MakeHarness() { return std::make_unique<AsioHarness>(); }

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends.data()), 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  void Write(char c) { EXPECT_EQ(write(ends[1], &c, 1), 1); }
  char Read() {
    char c = 0;
    EXPECT_EQ(read(ends[0], &c, 1), 1);
    return c;
  }
  std::array<int, 2> ends{};
};

TEST(AsioEventLoop, StopBeforeRunMakesRunReturnAtOnceAndTheLoopRunsAgain) {
  AsioEventLoop loop;
  loop.Stop();
  loop.Run();
  bool ran = false;
  loop.Post([&] { ran = true; });
  EXPECT_TRUE(RunUntil(loop, [&] { return ran; }));
}

TEST(AsioEventLoop, StopFromAnotherThreadEndsRun) {
  AsioEventLoop loop;
  std::thread stopper([&] { loop.Stop(); });
  loop.Run();
  stopper.join();
}

TEST(AsioEventLoop, WatchCallsBackAsLongAsThereIsSomethingToRead) {
  AsioEventLoop loop;
  Pipe pipe;
  std::string got;
  pipe.Write('a');
  pipe.Write('b');  // both before the watch begins
  const TimerPtr watch = loop.WatchReadable(pipe.ends[0], [&] { got.push_back(pipe.Read()); });
  ASSERT_TRUE(RunUntil(loop, [&] { return got.size() == 2; }));
  pipe.Write('c');
  ASSERT_TRUE(RunUntil(loop, [&] { return got.size() == 3; }));
  EXPECT_EQ(got, "abc");
}

TEST(AsioEventLoop, AWatchMayEndInItsOwnCallbackAndLeavesTheDescriptorOpen) {
  AsioEventLoop loop;
  Pipe pipe;
  int calls = 0;
  TimerPtr watch;
  watch = loop.WatchReadable(pipe.ends[0], [&, held = std::make_shared<int>(1)] {
    watch.reset();
    calls += *held;
  });
  pipe.Write('a');
  ASSERT_TRUE(RunUntil(loop, [&] { return calls == 1; }));
  bool later = false;
  const TimerPtr timer = loop.After(std::chrono::milliseconds(2), [&] { later = true; });
  ASSERT_TRUE(RunUntil(loop, [&] { return later; }));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(pipe.Read(), 'a');
}

TEST(AsioEventLoop, AWatchThatEndedWhileItsCallbackWasDueStaysSilent) {
  AsioEventLoop loop;
  Pipe pipe;
  pipe.Write('a');
  TimerPtr watch = loop.WatchReadable(pipe.ends[0], [] { FAIL(); });
  loop.Post([&] { watch.reset(); });
  bool later = false;
  const TimerPtr timer = loop.After(std::chrono::milliseconds(2), [&] { later = true; });
  watch.reset();
  ASSERT_TRUE(RunUntil(loop, [&] { return later; }));
}

TEST(AsioEventLoop, SignalsReachTheirWatchUntilItEnds) {
  AsioEventLoop loop;
  std::vector<int> got;
  const std::array<int, 2> signals{SIGUSR1, SIGUSR2};
  TimerPtr watch = loop.WatchSignals(signals, [&](int signal) { got.push_back(signal); });
  raise(SIGUSR1);
  ASSERT_TRUE(RunUntil(loop, [&] { return got.size() == 1; }));
  raise(SIGUSR2);
  ASSERT_TRUE(RunUntil(loop, [&] { return got.size() == 2; }));
  EXPECT_EQ(got, (std::vector<int>{SIGUSR1, SIGUSR2}));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Asio, EventLoopContract, testing::Values(&MakeHarness));

}  // namespace espalier::io
