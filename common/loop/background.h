#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "common/base/event_loop.h"

namespace espalier::io {

// A thread for work that would keep a loop waiting: one piece after the other, in order.
// Thread safety: Run from any thread. The destructor waits for the piece at hand and drops the
// others; what is done by then may still be posted, so the loop outlives this.
class Background {
 public:
  explicit Background(EventLoop& loop);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Does the work in the thread, and then posts `done` on the loop.
  void Run(std::function<void()> work, std::function<void()> done);

 private:
  void Work();

  EventLoop& loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::function<void()>, std::function<void()>>> waiting_;  // guarded
  bool is_over_ = false;                                                         // guarded
  std::thread thread_;
};

}  // namespace espalier::io
