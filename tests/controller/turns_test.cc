#include "controller/turns.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

// A loop that is as busy as a test says: it runs posted work when the test says so.
class BusyLoop : public EventLoop {
 public:
  TimePoint Now() const override { return now_; }
  void Post(Callback callback) override { posted_.push_back(std::move(callback)); }
  TimerPtr After(Duration /*delay*/, Callback /*callback*/) override { return nullptr; }

  void RunAfter(Duration busy) {
    now_ += busy;
    for (const Callback& callback : std::exchange(posted_, {})) callback();
  }

 private:
  TimePoint now_{std::chrono::hours(1)};
  std::vector<Callback> posted_;
};

class TurnsTest : public testing::Test {
 protected:
  std::vector<std::string> Told() const {
    std::vector<std::string> kinds;
    for (const HistoryEvent& event : history_.Since(0, 100)) kinds.push_back(event.kind);
    return kinds;
  }
  bool Counts(const std::string& line) const {
    return ("\n" + metrics_.Text()).find("\n" + line + "\n") != std::string::npos;
  }

  Metrics metrics_;
  BusyLoop loop_;
  EventHistory history_;
  int turns_taken_ = 0;
  Turns turns_{loop_, history_,
               [this] {
                 ++turns_taken_;
                 turns_.Begin();
               },
               metrics_};
};

TEST_F(TurnsTest, OneTurnHandlesAllPendingEvents) {
  for (int i = 0; i < 5; ++i) turns_.Request();
  EXPECT_EQ(turns_taken_, 0) << "not inside of who asks";
  loop_.RunAfter(0ms);
  EXPECT_EQ(turns_taken_, 1);
  loop_.RunAfter(0ms);
  EXPECT_EQ(turns_taken_, 1);
  turns_.Request();
  loop_.RunAfter(0ms);
  EXPECT_EQ(turns_taken_, 2);
}

TEST_F(TurnsTest, IsLateIfATurnBeginsLongAfterItsRequest) {
  turns_.Request();
  loop_.RunAfter(50ms);
  EXPECT_FALSE(turns_.is_late());
  turns_.Request();
  loop_.RunAfter(10ms);
  EXPECT_FALSE(turns_.is_late());
  turns_.Request();
  loop_.RunAfter(51ms);
  EXPECT_TRUE(turns_.is_late());
  turns_.Request();
  loop_.RunAfter(2s);
  EXPECT_TRUE(turns_.is_late());
  EXPECT_EQ(Told(), std::vector<std::string>{"controller_late"}) << "once";
  turns_.Request();
  loop_.RunAfter(1ms);
  EXPECT_FALSE(turns_.is_late());
  EXPECT_EQ(Told(), (std::vector<std::string>{"controller_late", "controller_on_time"}));
  EXPECT_TRUE(Counts("espalier_controller_late_turns_total 2")) << metrics_.Text();
}

// The wait counts from the first request; a turn without a request does not count.
TEST_F(TurnsTest, WaitsAreCountedFromTheFirstRequest) {
  turns_.Request();
  loop_.RunAfter(0ms);
  loop_.RunAfter(10s);
  turns_.Begin();
  EXPECT_FALSE(turns_.is_late());
  EXPECT_TRUE(Counts("espalier_controller_turn_wait_seconds_count 1")) << metrics_.Text();
  turns_.Request();
  turns_.Begin();  // another turn comes first
  loop_.RunAfter(60ms);
  EXPECT_FALSE(turns_.is_late());
  EXPECT_TRUE(Counts("espalier_controller_turn_wait_seconds_count 2")) << metrics_.Text();
}

}  // namespace
}  // namespace espalier::controller
