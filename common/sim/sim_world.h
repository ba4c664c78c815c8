#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "common/base/time/event_loop.h"

namespace espalier::sim {

// Virtual time for any number of event loops, one for each simulated process. All loops share one
// timeline: the callback that is due first runs next, and among those due at the same time the one
// that was scheduled first. Callbacks take no time, Post takes one nanosecond. The same program
// with the same seed runs the same callbacks in the same order; TraceHash() shows whether it did.
//
// Thread safety: the thread that made it. Only EventLoop::Post may be called from any thread; posts
// from other threads are taken at the next step, which is not reproducible.
// Complexity: O(log n) for a callback, with n callbacks pending.
class SimWorld {
 public:
  explicit SimWorld(std::uint64_t seed);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // Makes a loop of this world, which must outlive it. Callbacks that are pending on a destroyed
  // loop never run, as in a process that dies.
  std::unique_ptr<EventLoop> MakeLoop();

  TimePoint Now() const;
  // Makes an independent source of random numbers. The n-th call gives the same for the same seed.
  Random MakeRandom() { return Random(random_.Next()); }

  // Runs the next callback; returns false if none is pending.
  bool Step();
  // Runs all callbacks that are due within the duration, and advances the clock by it.
  void RunFor(Duration duration);
  // Runs until done(), which is tested before the first callback and after each one. Returns false
  // after `limit` of virtual time, or if no callback is pending.
  bool RunUntil(const std::function<bool()>& done, Duration limit);

  // Adds bytes to the trace (a delivered message).
  void Trace(std::string_view bytes);
  // Returns a hash of all callbacks that ran (time and loop) and of all traced bytes.
  std::uint64_t TraceHash() const { return trace_hash_; }
  std::uint64_t callbacks_run() const { return callbacks_run_; }

 private:
  class Loop;
  class VirtualTimer;

  // Callbacks are in slots that are reused. A heap entry was cancelled if its sequence differs from
  // that of its slot.
  struct Entry {
    TimePoint due;
    std::uint64_t sequence;
    std::size_t slot;
  };
  struct Slot {
    EventLoop::Callback callback;
    std::uint64_t sequence = 0;
    std::size_t loop = 0;
  };
  struct Posted {
    std::size_t loop;
    EventLoop::Callback callback;
  };

  static bool Later(const Entry& a, const Entry& b);
  Entry Schedule(std::size_t loop, TimePoint due, EventLoop::Callback callback);
  void Post(std::size_t loop, EventLoop::Callback callback);
  void Cancel(const Entry& entry);
  void CloseLoop(std::size_t loop);
  void TakeInbox();
  const Entry* Next();  // null if nothing is pending
  void Mix(std::uint64_t value);

  const std::thread::id thread_ = std::this_thread::get_id();
  Random random_;
  std::atomic<Duration::rep> now_ns_;
  std::vector<Entry> heap_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_slots_;
  std::vector<bool> loop_is_open_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t trace_hash_ = 0;
  std::uint64_t callbacks_run_ = 0;

  std::mutex inbox_mutex_;
  std::vector<Posted> inbox_;  // from other threads
  std::atomic<bool> inbox_is_filled_ = false;
};

}  // namespace espalier::sim
