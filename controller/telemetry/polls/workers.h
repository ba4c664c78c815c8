#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/loop/background.h"

namespace espalier::telemetry {

// At most so many threads for work that would block a loop. Work that finds none idle waits, in
// order. Threads are started when they are first needed. Thread safety: the loop's thread. The
// destructor waits for the pieces in progress and drops the others; the loop must outlive this.
class Workers {
 public:
  Workers(EventLoop& loop, std::size_t most) : loop_(loop), most_(most) {}

  // Does the work on a thread and then calls `done` on the loop's.
  void Run(std::function<void()> work, std::function<void()> done);

 private:
  struct Piece {
    std::function<void()> work;
    std::function<void()> done;
  };
  void StartNext();

  EventLoop& loop_;
  const std::size_t most_;
  std::deque<Piece> waiting_;
  std::vector<std::size_t> idle_;  // of threads_
  std::vector<std::unique_ptr<io::Background>> threads_;
};

}  // namespace espalier::telemetry
