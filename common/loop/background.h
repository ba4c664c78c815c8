#pragma once

#include <cstdint>
#include <functional>

#include "common/base/time/event_loop.h"
#include "common/os/worker_thread.h"

namespace espalier::io {

// A thread that does work which would block a loop, one piece after another in order.
// Thread safety: Run from any thread. The destructor waits for the current piece and drops the
// others. It may still post results, so the loop must outlive this.
class Background {
 public:
  // Whether the thread leaves the processor to all others that want it.
  enum class Priority : std::uint8_t { kNormal, kLow };

  explicit Background(EventLoop& loop, Priority priority = Priority::kNormal);

  // Does the work on the thread and then posts `done` on the loop.
  void Run(std::function<void()> work, std::function<void()> done);

 private:
  EventLoop& loop_;
  WorkerThread thread_{WorkerThread::AtEnd::kDropped};
};

}  // namespace espalier::io
