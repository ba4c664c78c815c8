#pragma once

#include <functional>

#include "common/base/event_loop.h"
#include "common/os/worker_thread.h"

namespace espalier::io {

// A thread for work that would keep a loop waiting: one piece after the other, in order.
// Thread safety: Run from any thread. The destructor waits for the piece at hand and drops the
// others; what is done by then may still be posted, so the loop outlives this.
class Background {
 public:
  explicit Background(EventLoop& loop) : loop_(loop) {}

  // Does the work in the thread, and then posts `done` on the loop.
  void Run(std::function<void()> work, std::function<void()> done);

 private:
  EventLoop& loop_;
  WorkerThread thread_{WorkerThread::AtEnd::kDropped};
};

}  // namespace espalier::io
