#pragma once

#include <functional>
#include <memory>
#include <span>

#include "common/base/event_loop.h"

namespace espalier::io {

// The real event loop: Boost.Asio on one thread and CLOCK_MONOTONIC.
//
// Everything made with a loop (timers, watches, buses, servers) is destroyed before it, or inside
// callbacks that it still holds.
class AsioEventLoop : public EventLoop {
 public:
  AsioEventLoop();
  ~AsioEventLoop() override;

  // Runs callbacks on the calling thread until Stop.
  void Run();
  // Thread-safe; Run returns after the callback at hand. Without a Run at hand the next one
  // returns at once.
  void Stop();

  TimePoint Now() const override;
  void Post(Callback callback) override;
  [[nodiscard]] TimerPtr After(Duration delay, Callback callback) override;

  // Calls back whenever the descriptor (not owned, pollable) is readable, until the Timer is
  // destroyed, which must come before the descriptor is closed. One watch a descriptor at a time.
  [[nodiscard]] TimerPtr WatchReadable(int fd, Callback callback);
  // The same for writing; connecting and broken sockets become writable when that is decided.
  [[nodiscard]] TimerPtr WatchWritable(int fd, Callback callback);
  // Calls back once for each of these signals that arrives, until the Timer is destroyed. Signals
  // that arrive faster than they are handled may count as one.
  [[nodiscard]] TimerPtr WatchSignals(std::span<const int> signals,
                                      std::function<void(int)> callback);

  // For adapters in common/bus and common/http: a boost::asio::io_context*.
  void* context();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::io
