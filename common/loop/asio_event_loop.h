#pragma once

#include <functional>
#include <memory>
#include <span>

#include "common/base/time/event_loop.h"

namespace espalier::io {

// The real event loop: Boost.Asio on one thread and CLOCK_MONOTONIC.
//
// Everything that uses a loop (timers, watches, buses, servers) must be destroyed before it, or
// inside callbacks that it still holds.
class AsioEventLoop : public EventLoop {
 public:
  AsioEventLoop();
  ~AsioEventLoop() override;

  // Runs callbacks on the calling thread until Stop.
  void Run();
  // Makes Run return after the current callback, or the next Run return at once. Thread-safe.
  void Stop();

  TimePoint Now() const override;
  void Post(Callback callback) override;
  [[nodiscard]] TimerPtr After(Duration delay, Callback callback) override;

  // Calls back whenever the descriptor (not owned, pollable) is readable, until the Timer is
  // destroyed. Destroy it before closing the descriptor. One watch per descriptor at a time.
  [[nodiscard]] TimerPtr WatchReadable(int fd, Callback callback);
  // The same for writing; a connecting socket becomes writable when it is connected or has failed.
  [[nodiscard]] TimerPtr WatchWritable(int fd, Callback callback);
  // Calls back for each of these signals that arrives, until the Timer is destroyed. Signals that
  // arrive faster than they are handled may be merged.
  [[nodiscard]] TimerPtr WatchSignals(std::span<const int> signals,
                                      std::function<void(int)> callback);

  // For adapters in common/bus and common/http: a boost::asio::io_context*.
  void* context();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::io
