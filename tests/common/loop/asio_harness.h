#pragma once

#include <chrono>
#include <functional>

#include "common/loop/asio_event_loop.h"

namespace espalier::io {

// Runs the loop until done() is true; returns false after a minute, which no test should need.
inline bool RunUntil(AsioEventLoop& loop, const std::function<bool()>& done) {
  using namespace std::chrono_literals;
  const TimePoint deadline = loop.Now() + 60s;
  bool is_done = false;
  TimerPtr timer;
  std::function<void()> look = [&] {
    is_done = done();
    if (is_done || loop.Now() > deadline) {
      loop.Stop();
    } else {
      timer = loop.After(100us, look);
    }
  };
  loop.Post(look);
  loop.Run();
  return is_done;
}

}  // namespace espalier::io
